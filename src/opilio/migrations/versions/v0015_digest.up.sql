-- Days are days in this zone; null is the installation's own.
alter table project add column time_zone text;

-- Every project that has posts, with the zone its digest is kept in.
create table analytics_project (
  project_id  text primary key,
  time_zone   text not null
);
insert into analytics_project select distinct project_id, 'UTC' from post_analytics where project_id is not null;

-- A post found by several keywords belongs to each of them.
create table post_keywords (
  project_id  text not null,
  post_key    uuid not null,
  stored_at   timestamptz not null,          -- its post's
  keyword     text not null,
  role        text not null check (role in ('brand', 'competitor', 'other')),
  first_seen  timestamptz not null,
  last_seen   timestamptz not null,
  primary key (post_key, keyword, role)
);
create index post_keywords_age on post_keywords (stored_at);
insert into post_keywords
select project_id, post_key, stored_at, keyword_source, coalesce(keyword_role, 'other'), stored_at, analyzed_at
from post_analytics where project_id is not null and keyword_source is not null;

-- What a reader may filter posts by; without subqueries, so that it is inlined.
create or replace function post_matches(p post_analytics, wanted jsonb) returns boolean
language sql immutable as $$
  select (not wanted ? 'platform' or p.platform = wanted ->> 'platform')
     and (not wanted ? 'sentiment' or p.sentiment = wanted ->> 'sentiment')
     and (not wanted ? 'intent' or p.intent = wanted ->> 'intent')
     and (not wanted ? 'risk' or p.risk_level = wanted ->> 'risk')
     and (not wanted ? 'language' or p.language = wanted ->> 'language')
     and (not wanted ? 'aspect' or p.aspects ? (wanted ->> 'aspect'))
     and (not wanted ? 'q' or position(lower(wanted ->> 'q') in lower(p.content_text)) > 0)
$$;

-- Whether a post was found by the keyword, or for the brand or a competitor, that a reader filters by.
create function post_found_by(key uuid, words text[], wanted jsonb) returns boolean
language sql stable as $$
  select (not wanted ? 'role'
          or exists (select from post_keywords k where k.post_key = key and k.role = wanted ->> 'role'))
     and (not wanted ? 'keyword' or lower(wanted ->> 'keyword') = any (words)
          or exists (select from post_keywords k
                     where k.post_key = key and lower(k.keyword) = lower(wanted ->> 'keyword')))
$$;

-- What each post adds to the digest of its day.
create view post_fact as
select p.project_id, p.post_key, p.stored_at, (p.at at time zone z.time_zone)::date as day, f.*
from post_analytics p join analytics_project z using (project_id)
cross join lateral (
  select 'all' as kind, '' as key, 1::bigint as posts, (p.fetch_status = 'error')::int::bigint as errors,
         0::bigint as negative, 0::bigint as neutral, 0::bigint as positive, 0::bigint as scored, 0::float8 as score,
         0::float8 as impact, 0::real as top_impact, 0::bigint as views, 0::bigint as likes, 0::bigint as comments,
         0::bigint as shares, 0::bigint as saves
  union all
  select k.kind, k.key, 1, 0, (p.sentiment is not distinct from 'negative')::int,
         (p.sentiment is not distinct from 'neutral')::int, (p.sentiment is not distinct from 'positive')::int,
         (p.sentiment is not null)::int, coalesce(p.sentiment_score, 0)::float8, coalesce(p.impact_score, 0)::float8,
         coalesce(p.impact_score, 0), p.view_count, p.like_count, p.comment_count, p.share_count, p.save_count
  from (
    values ('total', ''), ('platform', p.platform), ('sentiment', p.sentiment), ('intent', p.intent),
           ('risk', p.risk_level), ('language', p.language)
    union all select 'word', w from unnest(p.keywords) w
    union all select 'voice', v.role || ' ' || v.keyword from post_keywords v where v.post_key = p.post_key
    union all select 'voice', 'other ' where not exists (select from post_keywords v where v.post_key = p.post_key)
  ) k(kind, key)
  where p.intent is not null and k.key is not null
  union all
  select 'aspect', a.key, 1, 0, (a.value ->> 'sentiment' = 'negative')::int, (a.value ->> 'sentiment' = 'neutral')::int,
         (a.value ->> 'sentiment' = 'positive')::int, 0, 0, 0, 0, 0, 0, 0, 0, 0
  from jsonb_each(p.aspects) a where p.intent is not null
  union all
  select 'comment', c.sentiment, count(*), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
  from post_comments c
  where c.post_key = p.post_key and c.stored_at = p.stored_at and c.sentiment is not null and p.intent is not null
  group by c.sentiment
) f;

-- Figures by day and label, kept as batches are stored.
create table post_digest (
  project_id  text not null,
  kind        text not null,                 -- all, total, platform, sentiment, intent, risk, language, word, voice, aspect, comment
  day         date not null,
  key         text not null,
  posts       bigint not null,
  errors      bigint not null,
  negative    bigint not null,
  neutral     bigint not null,
  positive    bigint not null,
  scored      bigint not null,
  score       float8 not null,
  impact      float8 not null,
  top_impact  real not null,
  views       bigint not null,
  likes       bigint not null,
  comments    bigint not null,
  shares      bigint not null,
  saves       bigint not null,
  primary key (project_id, kind, day, key)
) with (fillfactor = 70);
insert into post_digest
select project_id, kind, day, key, sum(posts), sum(errors), sum(negative), sum(neutral), sum(positive), sum(scored),
       sum(score), sum(impact), max(top_impact), sum(views), sum(likes), sum(comments), sum(shares), sum(saves)
from post_fact group by 1, 2, 3, 4;
