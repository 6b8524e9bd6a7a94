-- name: analytics_summary
-- The figures of a project's posts: volume, sentiment, intent, risk. Posts are read once, into a row for each
-- kind of post, of which there are never many.
with kinds as materialized (
  select p.sentiment, p.intent, p.risk_level, p.platform, p.language, count(*) as n, count(*) filter (where p.fetch_status = 'error') as errors,
         min(p.at) as first_at, max(p.at) as last_at, sum(p.sentiment_score::float8) as score, sum(p.impact_score::float8) as impact,
         sum(p.view_count) as views, sum(p.like_count) as likes, sum(p.comment_count) as comments, sum(p.share_count) as shares,
         sum(p.save_count) as saves
  from post_analytics p
  where p.project_id = :project_id and p.at >= coalesce(:since, '-infinity'::timestamptz)
    and p.at < coalesce(:until, 'infinity'::timestamptz) and post_matches(p, :wanted)
    and (not :wanted::jsonb ?| array['role', 'keyword'] or post_found_by(p.post_key, p.keywords, :wanted))
  group by 1, 2, 3, 4, 5
), seen as (select * from kinds where intent is not null)
select
  (select coalesce(sum(n), 0)::bigint from kinds) as posts,
  (select coalesce(sum(n), 0)::bigint from seen) as analysed,
  (select coalesce(sum(errors), 0)::bigint from kinds) as errors,
  (select min(first_at) from seen) as first_at,
  (select max(last_at) from seen) as last_at,
  (select round((sum(score) / sum(n))::numeric, 4)::float8 from seen where sentiment is not null) as sentiment_score,
  (select round((sum(impact) / sum(n))::numeric, 2)::float8 from seen) as impact_score,
  (select jsonb_build_object('views', coalesce(sum(views), 0), 'likes', coalesce(sum(likes), 0),
          'comments', coalesce(sum(comments), 0), 'shares', coalesce(sum(shares), 0), 'saves', coalesce(sum(saves), 0)) from seen) as interactions,
  (select coalesce(jsonb_object_agg(key, n), '{}') from (select sentiment as key, sum(n) n from seen where sentiment is not null group by 1) t) as sentiments,
  (select coalesce(jsonb_object_agg(key, n), '{}') from (select intent as key, sum(n) n from seen group by 1) t) as intents,
  (select coalesce(jsonb_object_agg(key, n), '{}') from (select risk_level as key, sum(n) n from seen group by 1) t) as risks,
  (select coalesce(jsonb_object_agg(key, n), '{}') from (select platform as key, sum(n) n from seen group by 1) t) as platforms,
  (select coalesce(jsonb_object_agg(key, n), '{}') from (select language as key, sum(n) n from seen group by 1) t) as languages;

-- name: analytics_comment_sentiments
-- The sentiment of comments.
select c.sentiment, count(*) as comments from post_analytics p join post_comments c using (post_key, stored_at)
where p.project_id = :project_id and p.intent is not null and c.sentiment is not null
  and p.at >= coalesce(:since, '-infinity'::timestamptz)
  and p.at < coalesce(:until, 'infinity'::timestamptz) and post_matches(p, :wanted)
    and (not :wanted::jsonb ?| array['role', 'keyword'] or post_found_by(p.post_key, p.keywords, :wanted))
group by 1 order by 1;

-- name: analytics_aspects
-- Aspects that posts mention, with their sentiment.
select a.key as aspect, count(*) as posts,
       count(*) filter (where a.value ->> 'sentiment' = 'negative') as negative,
       count(*) filter (where a.value ->> 'sentiment' = 'neutral') as neutral,
       count(*) filter (where a.value ->> 'sentiment' = 'positive') as positive
from post_analytics p, jsonb_each(p.aspects) a
where p.project_id = :project_id and p.intent is not null and p.at >= coalesce(:since, '-infinity'::timestamptz)
  and p.at < coalesce(:until, 'infinity'::timestamptz) and post_matches(p, :wanted)
    and (not :wanted::jsonb ?| array['role', 'keyword'] or post_found_by(p.post_key, p.keywords, :wanted))
group by 1 order by 2 desc, 1;

-- name: analytics_posts
-- Posts, the newest first.
select p.post_key, p.id, p.platform, p.job_id, p.task_type, p.keyword_source, p.keyword_role, p.brand_name, p.at,
       p.published_at, p.crawled_at, p.permalink, p.content_text, p.hashtags, p.author_name, p.author_username,
       p.author_is_verified, p.follower_count, p.view_count, p.like_count, p.comment_count, p.share_count, p.save_count,
       p.language, p.flags, p.keywords, p.intent, p.intent_confidence, p.sentiment, p.sentiment_score, p.aspects,
       p.impact_score, p.risk_level, p.impact_breakdown, p.fetch_status, p.error_code, p.fetch_error
from post_analytics p
where p.project_id = :project_id and p.at >= coalesce(:since, '-infinity'::timestamptz)
  and p.at < coalesce(:until, 'infinity'::timestamptz) and post_matches(p, :wanted)
    and (not :wanted::jsonb ?| array['role', 'keyword'] or post_found_by(p.post_key, p.keywords, :wanted))
  and (:before_at::timestamptz is null or (p.at, p.post_key) < (:before_at::timestamptz, :before_key::uuid))
order by p.at desc, p.post_key desc limit :most::int;

-- name: posts_like
-- Posts of all projects that say something or are by somebody, among the newest.
select p.project_id, p.content_text, coalesce(p.author_name, p.author_username) as author from (
  select p.project_id, p.content_text, p.author_name, p.author_username, p.post_key from post_analytics p
  where p.project_id is not null and p.content_text is not null order by p.post_key desc limit :bound::int) p
where position(lower(:q::text) in lower(p.content_text || ' ' || coalesce(p.author_name, '') || ' ' || coalesce(p.author_username, ''))) > 0
order by p.post_key desc limit :most::int;

-- name: analytics_texts
-- What some posts say.
select i.content_id as id, p.content_text from unnest(:platforms::text[], :ids::text[]) w(platform, id)
join post_identity i on i.project = :project_id::text and i.platform = w.platform and i.content_id = w.id
join post_analytics p using (post_key, stored_at);

-- name: analytics_posts_by_impact
-- Analysed posts, the highest impact first.
select p.post_key, p.id, p.platform, p.job_id, p.task_type, p.keyword_source, p.keyword_role, p.brand_name, p.at,
       p.published_at, p.crawled_at, p.permalink, p.content_text, p.hashtags, p.author_name, p.author_username,
       p.author_is_verified, p.follower_count, p.view_count, p.like_count, p.comment_count, p.share_count, p.save_count,
       p.language, p.flags, p.keywords, p.intent, p.intent_confidence, p.sentiment, p.sentiment_score, p.aspects,
       p.impact_score, p.risk_level, p.impact_breakdown, p.fetch_status, p.error_code, p.fetch_error
from post_analytics p
where p.project_id = :project_id and p.intent is not null and p.at >= coalesce(:since, '-infinity'::timestamptz)
  and p.at < coalesce(:until, 'infinity'::timestamptz) and post_matches(p, :wanted)
    and (not :wanted::jsonb ?| array['role', 'keyword'] or post_found_by(p.post_key, p.keywords, :wanted))
  and (:below::real is null or (p.impact_score, p.post_key) < (:below::real, :before_key::uuid))
order by p.impact_score desc, p.post_key desc limit :most::int;

-- name: analytics_comments
-- The comments of one post, the most liked first.
select c.comment_id, c.text, c.author_name, c.likes, c.sentiment, c.sentiment_score, c.commented_at
from post_identity i join post_comments c using (post_key, stored_at)
where i.project = :project_id and i.platform = :platform and i.content_id = :id
order by c.likes desc, c.comment_id limit :most::int;

-- name: analytics_trends
-- Volume and sentiment by hour, day, week or month of the project's zone; spans without posts are left out.
select date_trunc(:bucket, p.at, :time_zone) as at, count(*) as posts,
       count(*) filter (where sentiment = 'negative') as negative,
       count(*) filter (where sentiment = 'neutral') as neutral,
       count(*) filter (where sentiment = 'positive') as positive,
       round(avg(sentiment_score)::numeric, 4)::float8 as sentiment_score,
       round(avg(impact_score)::numeric, 2)::float8 as impact_score,
       sum(view_count)::bigint as views,
       sum(like_count + comment_count + share_count + save_count)::bigint as interactions
from post_analytics p
where p.project_id = :project_id and p.intent is not null and p.at >= coalesce(:since, '-infinity'::timestamptz)
  and p.at < coalesce(:until, 'infinity'::timestamptz) and post_matches(p, :wanted)
    and (not :wanted::jsonb ?| array['role', 'keyword'] or post_found_by(p.post_key, p.keywords, :wanted))
group by 1 order by 1 desc limit :most::int;

-- name: analytics_keywords
-- The most frequent keywords of posts, with their sentiment.
select word as keyword, count(*) as posts,
       count(*) filter (where sentiment = 'negative') as negative,
       count(*) filter (where sentiment = 'positive') as positive,
       round(avg(sentiment_score)::numeric, 4)::float8 as sentiment_score,
       round(max(impact_score)::numeric, 1)::float8 as top_impact
from post_analytics p, unnest(p.keywords) word
where p.project_id = :project_id and p.intent is not null and p.at >= coalesce(:since, '-infinity'::timestamptz)
  and p.at < coalesce(:until, 'infinity'::timestamptz) and post_matches(p, :wanted)
    and (not :wanted::jsonb ?| array['role', 'keyword'] or post_found_by(p.post_key, p.keywords, :wanted))
group by 1 order by 2 desc, 1 limit :most::int;

-- name: analytics_errors
-- What went wrong while crawling, by category and code; the retryable ones are those of posts that are still missing.
select error_category, error_code, count(*) as errors, count(distinct content_id) as posts,
       min(created_at) as first_at, max(created_at) as last_at
from crawl_errors
where project_id = :project_id and created_at >= coalesce(:since, '-infinity'::timestamptz)
  and created_at < coalesce(:until, 'infinity'::timestamptz)
  and (not :retryable or (error_code <> all(:final_codes::text[]) and exists (
    select from post_identity i join post_analytics p using (post_key, stored_at)
    where (i.project, i.platform, i.content_id) = (crawl_errors.project_id, crawl_errors.platform, crawl_errors.content_id)
      and p.fetch_status = 'error')))
group by 1, 2 order by 3 desc, 2;

-- name: analytics_error_list
-- Single errors, the newest first.
select id, content_id, job_id, platform, error_code, error_category, error_message, error_details, permalink, created_at
from crawl_errors
where project_id = :project_id and created_at >= coalesce(:since, '-infinity'::timestamptz)
  and created_at < coalesce(:until, 'infinity'::timestamptz)
  and (:code::text is null or error_code = :code::text)
  and (:before::bigint is null or id < :before::bigint)
  and (not :retryable or (error_code <> all(:final_codes::text[]) and exists (
    select from post_identity i join post_analytics p using (post_key, stored_at)
    where (i.project, i.platform, i.content_id) = (crawl_errors.project_id, crawl_errors.platform, crawl_errors.content_id)
      and p.fetch_status = 'error')))
order by id desc limit :most::int;

-- name: analytics_share_of_voice
-- How much is said of the brand and of each competitor, with its sentiment; a post found by two keywords counts for both.
with counted as (
  select coalesce(k.role, 'other') as role, k.keyword, count(*) as posts, sum(p.view_count)::bigint as views,
         sum(p.like_count + p.comment_count + p.share_count + p.save_count)::bigint as interactions,
         count(*) filter (where p.sentiment = 'negative') as negative,
         count(*) filter (where p.sentiment = 'positive') as positive,
         round(avg(p.sentiment_score)::numeric, 4)::float8 as sentiment_score
  from post_analytics p left join post_keywords k using (post_key)
  where p.project_id = :project_id and p.intent is not null and p.at >= coalesce(:since, '-infinity'::timestamptz)
    and p.at < coalesce(:until, 'infinity'::timestamptz) and post_matches(p, :wanted)
    and (not :wanted::jsonb ?| array['role', 'keyword'] or post_found_by(p.post_key, p.keywords, :wanted))
    and (not :wanted::jsonb ? 'role' or k.role = :wanted::jsonb ->> 'role')
  group by 1, 2
)
select *, round(posts * 100.0 / sum(posts) over (), 2)::float8 as share_percent,
       coalesce(round(interactions * 100.0 / nullif(sum(interactions) over (), 0), 2), 0)::float8 as engagement_percent
from counted order by posts desc, role, keyword;

-- name: analytics_voices
-- Posts of the brand and of each competitor by hour, day, week or month of the project's zone.
select date_trunc(:bucket, p.at, :time_zone) as at, coalesce(k.role, 'other') || ' ' || coalesce(k.keyword, '') as key,
       count(*) as posts
from post_analytics p left join post_keywords k using (post_key)
where p.project_id = :project_id and p.intent is not null and p.at >= coalesce(:since, '-infinity'::timestamptz)
  and p.at < coalesce(:until, 'infinity'::timestamptz) and post_matches(p, :wanted)
  and (not :wanted::jsonb ?| array['role', 'keyword'] or post_found_by(p.post_key, p.keywords, :wanted))
  and (not :wanted::jsonb ? 'role' or k.role = :wanted::jsonb ->> 'role')
group by 1, 2 order by 1 desc, 2 limit :most::int;

-- name: digest_zone
-- The zone that the days of a project are counted in.
select time_zone from analytics_project where project_id = :project_id;

-- name: digest_summary
-- How many posts, with their sentiment, intent and risk, from the digest of the days.
with days as (
  select kind, key, sum(posts)::bigint as n, sum(errors)::bigint as errors, sum(scored)::bigint as scored, sum(score) as score,
         sum(impact) as impact, sum(views)::bigint as views, sum(likes)::bigint as likes, sum(comments)::bigint as comments,
         sum(shares)::bigint as shares, sum(saves)::bigint as saves
  from post_digest
  where project_id = :project_id and kind in ('all', 'total', 'sentiment', 'intent', 'risk', 'platform', 'language')
    and day >= coalesce(:first::date, '-infinity') and day < coalesce(:last::date, 'infinity')
  group by 1, 2 having sum(posts) > 0
), labels as (
  select kind, jsonb_object_agg(key, n) as counts from days where kind not in ('all', 'total') group by 1
), total as (select * from days where kind = 'total')
select
  coalesce((select n from days where kind = 'all'), 0) as posts,
  coalesce((select n from total), 0) as analysed,
  coalesce((select errors from days where kind = 'all'), 0) as errors,
  (select p.at from post_analytics p where p.project_id = :project_id and p.intent is not null
     and p.at >= coalesce(:since, '-infinity'::timestamptz) and p.at < coalesce(:until, 'infinity'::timestamptz)
   order by p.at, p.post_key limit 1) as first_at,
  (select p.at from post_analytics p where p.project_id = :project_id and p.intent is not null
     and p.at >= coalesce(:since, '-infinity'::timestamptz) and p.at < coalesce(:until, 'infinity'::timestamptz)
   order by p.at desc, p.post_key desc limit 1) as last_at,
  (select round((score / nullif(scored, 0))::numeric, 4)::float8 from total) as sentiment_score,
  (select round((impact / n)::numeric, 2)::float8 from total) as impact_score,
  coalesce((select jsonb_build_object('views', views, 'likes', likes, 'comments', comments, 'shares', shares, 'saves', saves)
            from total), '{"views": 0, "likes": 0, "comments": 0, "shares": 0, "saves": 0}') as interactions,
  coalesce((select counts from labels where kind = 'sentiment'), '{}') as sentiments,
  coalesce((select counts from labels where kind = 'intent'), '{}') as intents,
  coalesce((select counts from labels where kind = 'risk'), '{}') as risks,
  coalesce((select counts from labels where kind = 'platform'), '{}') as platforms,
  coalesce((select counts from labels where kind = 'language'), '{}') as languages;

-- name: digest_labels
-- Posts by one kind of label, the most frequent first. Those are found first: a project has a row for each word and day.
with top as materialized (
  select key from post_digest
  where project_id = :project_id and kind = :kind
    and day >= coalesce(:first::date, '-infinity') and day < coalesce(:last::date, 'infinity')
  group by 1 having sum(posts) > 0 order by sum(posts) desc, 1 limit :most::int
)
select d.key, sum(d.posts)::bigint as posts, sum(d.negative)::bigint as negative, sum(d.neutral)::bigint as neutral,
       sum(d.positive)::bigint as positive,
       round((sum(d.score) / nullif(sum(d.scored), 0))::numeric, 4)::float8 as sentiment_score,
       round(max(d.top_impact)::numeric, 1)::float8 as top_impact, sum(d.views)::bigint as views,
       sum(d.likes + d.comments + d.shares + d.saves)::bigint as interactions
from top join post_digest d using (key)
where d.project_id = :project_id and d.kind = :kind
  and d.day >= coalesce(:first::date, '-infinity') and d.day < coalesce(:last::date, 'infinity')
group by 1 order by 2 desc, 1;

-- name: digest_trends
-- Volume and sentiment by day, week or month of the project's zone; days without posts are left out.
select date_trunc(:bucket, day::timestamp) at time zone :time_zone as at, sum(posts)::bigint as posts,
       sum(negative)::bigint as negative, sum(neutral)::bigint as neutral, sum(positive)::bigint as positive,
       round((sum(score) / nullif(sum(scored), 0))::numeric, 4)::float8 as sentiment_score,
       round((sum(impact) / sum(posts))::numeric, 2)::float8 as impact_score, sum(views)::bigint as views,
       sum(likes + comments + shares + saves)::bigint as interactions
from post_digest
where project_id = :project_id and kind = 'total'
  and day >= coalesce(:first::date, '-infinity') and day < coalesce(:last::date, 'infinity')
group by 1 having sum(posts) > 0 order by 1 desc limit :most::int;

-- name: digest_voices
-- Posts of the brand and of each competitor by day, week or month of the project's zone.
select date_trunc(:bucket, day::timestamp) at time zone :time_zone as at, key, sum(posts)::bigint as posts
from post_digest
where project_id = :project_id and kind = 'voice'
  and day >= coalesce(:first::date, '-infinity') and day < coalesce(:last::date, 'infinity')
group by 1, 2 having sum(posts) > 0 order by 1 desc, 2 limit :most::int;

-- name: analytics_export
-- Whole rows, the oldest first, page by page.
select p.post_key, p.id, p.project_id, p.platform, p.job_id, p.batch_index, p.task_type, p.keyword_source, p.keyword_role,
       p.brand_name, p.at, p.published_at, p.crawled_at, p.analyzed_at, p.pipeline_version, p.permalink, p.content_text,
       p.hashtags, p.author_id, p.author_name, p.author_username, p.author_is_verified, p.follower_count, p.view_count,
       p.like_count, p.comment_count, p.share_count, p.save_count, p.language, p.flags, p.keywords, p.intent,
       p.intent_confidence, p.sentiment, p.sentiment_score, p.aspects, p.impact_score, p.risk_level, p.model_version,
       p.fetch_status, p.fetch_error, p.error_code
from post_analytics p
where p.project_id = :project_id and p.at >= coalesce(:since, '-infinity'::timestamptz)
  and p.at < coalesce(:until, 'infinity'::timestamptz) and post_matches(p, :wanted)
    and (not :wanted::jsonb ?| array['role', 'keyword'] or post_found_by(p.post_key, p.keywords, :wanted))
  and (:after_at::timestamptz is null or (p.at, p.post_key) > (:after_at::timestamptz, :after_key::uuid))
order by p.at, p.post_key limit :most::int;

-- name: analytics_projects
-- Projects that are known only from their batches, the largest first.
select d.project_id, sum(d.posts)::bigint as posts, max(d.day)::timestamp at time zone 'UTC' as last_at from post_digest d
where d.kind = 'all' and not exists (select from project p where p.project_id = d.project_id)
  and (:q::text is null or position(lower(:q::text) in lower(d.project_id)) > 0)
group by 1 order by 2 desc, 1 limit :most::int;
