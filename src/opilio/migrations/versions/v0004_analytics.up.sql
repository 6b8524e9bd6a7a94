-- Analytics: what crawlers brought and what the stages say of it.

-- Which batches are done: a batch or an event that comes again finds itself here and changes nothing.
create table analysed_batch (
  batch_key      text primary key,           -- platform, job, index and object
  event_id       text not null,
  project_id     text,
  job_id         text,
  status         text not null check (status in ('done', 'failed')),
  success_count  int not null,
  error_count    int not null,
  processed_at   timestamptz not null
);
create index analysed_batch_event on analysed_batch (event_id);
create index analysed_batch_age on analysed_batch (processed_at);

-- The identity of a post. Rows are partitioned by time, and a unique key over partitions would need the time in
-- it; so the key lies here, and says in which partition its row is.
create table post_identity (
  project     text not null,                 -- '' for dry runs
  platform    text not null,
  content_id  text not null,
  post_key    uuid not null default opilio_uuid7(),
  stored_at   timestamptz not null,
  alerted     smallint not null default 0,   -- the highest risk that an alert was raised for
  primary key (project, platform, content_id)
) with (fillfactor = 90);
create index post_identity_age on post_identity (stored_at);

create table post_analytics (
  post_key                 uuid not null,
  stored_at                timestamptz not null,
  id                       text not null,     -- the platform's own
  project_id               text,              -- null for dry runs
  job_id                   text,
  batch_index              int,
  task_type                text,
  platform                 text not null,
  keyword_source           text,
  keyword_role             text check (keyword_role in ('brand', 'competitor')),
  brand_name               text,
  crawled_at               timestamptz,
  published_at             timestamptz,
  pipeline_version         text,
  permalink                text,
  content_text             text,
  content_transcription    text,
  media_duration           double precision,
  hashtags                 text[] not null default '{}',
  author_id                text,
  author_name              text,
  author_username          text,
  author_avatar_url        text,
  author_is_verified       boolean,
  follower_count           bigint not null default 0,
  view_count               bigint not null default 0,
  like_count               bigint not null default 0,
  comment_count            bigint not null default 0,
  share_count              bigint not null default 0,
  save_count               bigint not null default 0,
  language                 text,
  flags                    text[] not null default '{}',
  keywords                 text[] not null default '{}',
  intent                   text,
  intent_confidence        real,
  sentiment                text check (sentiment in ('negative', 'neutral', 'positive')),
  sentiment_score          real,
  sentiment_probabilities  jsonb,
  aspects                  jsonb not null default '{}',
  impact_score             real,
  risk_level               text check (risk_level in ('low', 'medium', 'high', 'critical')),
  impact_breakdown         jsonb not null default '[]',
  model_version            text,
  processing_time_ms       real,
  analyzed_at              timestamptz not null,
  fetch_status             text not null check (fetch_status in ('success', 'error')),
  fetch_error              text,
  error_code               text,
  error_details            jsonb,
  at                       timestamptz not null generated always as (coalesce(published_at, crawled_at, stored_at)) stored,
  primary key (post_key, stored_at)
) partition by range (stored_at);
create index idx_post_analytics_job_id on post_analytics (job_id);
create index idx_post_analytics_fetch_status on post_analytics (fetch_status);
create index idx_post_analytics_task_type on post_analytics (task_type);
create index idx_post_analytics_project_time on post_analytics (project_id, at desc, post_key desc);
create index idx_post_analytics_project_impact on post_analytics (project_id, impact_score desc, post_key desc)
  where sentiment is not null;

create table post_comments (
  post_key         uuid not null,
  stored_at        timestamptz not null,     -- its post's
  comment_id       text not null,            -- the platform's own, or a digest of author and text
  text             text not null,
  author_name      text,
  likes            bigint not null default 0,
  sentiment        text not null check (sentiment in ('negative', 'neutral', 'positive')),
  sentiment_score  real not null,
  commented_at     timestamptz,
  created_at       timestamptz not null,
  primary key (post_key, stored_at, comment_id)
) partition by range (stored_at);

create table crawl_errors (
  id              bigint generated always as identity,
  content_id      text not null,
  project_id      text,                      -- null for dry runs
  job_id          text not null,
  platform        text not null,
  error_code      text not null,
  error_category  text not null,
  error_message   text,
  error_details   jsonb,
  permalink       text,
  created_at      timestamptz not null default now(),
  primary key (id, created_at)
) partition by range (created_at);
create index idx_crawl_errors_project_id on crawl_errors (project_id);
create index idx_crawl_errors_error_code on crawl_errors (error_code);
create index idx_crawl_errors_created_at on crawl_errors (created_at);

-- A row whose month was not prepared is kept all the same.
create table post_analytics_other partition of post_analytics default;
create table post_comments_other partition of post_comments default;
create table crawl_errors_other partition of crawl_errors default;
select opilio_partition(parent, 'month', now() + n * interval '1 month')
from unnest(array['post_analytics', 'post_comments', 'crawl_errors']) parent, generate_series(0, 2) n;

-- Drops the months that ended before a time, and the identities of the posts that were in them.
create function analytics_forget(before timestamptz) returns int
language plpgsql as $$
declare
  child record;
  dropped int := 0;
begin
  for child in
    select c.oid::regclass as name,
           substring(pg_get_expr(c.relpartbound, c.oid) from 'TO \(''([^'']+)''\)')::timestamptz as ends
    from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent in ('post_analytics'::regclass, 'post_comments'::regclass, 'crawl_errors'::regclass)
  loop
    if child.ends <= before then
      execute format('drop table %s', child.name);
      dropped := dropped + 1;
    end if;
  end loop;
  delete from post_identity i
  where i.stored_at < date_trunc('month', before, 'UTC')
    and not exists (select from post_analytics p where p.post_key = i.post_key and p.stored_at = i.stored_at);
  delete from analysed_batch where processed_at < before;
  return dropped;
end $$;

-- What a reader may filter posts by; one place, so that every list and every figure means the same posts.
create function post_matches(p post_analytics, wanted jsonb) returns boolean
language sql immutable as $$
  select (not wanted ? 'platform' or p.platform = wanted ->> 'platform')
     and (not wanted ? 'sentiment' or p.sentiment = wanted ->> 'sentiment')
     and (not wanted ? 'intent' or p.intent = wanted ->> 'intent')
     and (not wanted ? 'risk' or p.risk_level = wanted ->> 'risk')
     and (not wanted ? 'role' or p.keyword_role = wanted ->> 'role')
     and (not wanted ? 'language' or p.language = wanted ->> 'language')
     and (not wanted ? 'aspect' or p.aspects ? (wanted ->> 'aspect'))
     and (not wanted ? 'keyword' or lower(p.keyword_source) = lower(wanted ->> 'keyword')
          or lower(wanted ->> 'keyword') = any (p.keywords))
     and (not wanted ? 'q' or position(lower(wanted ->> 'q') in lower(p.content_text)) > 0)
$$;
