-- name: analytics_summary
-- The figures of a project's posts: how many, how felt, how wanted, how risky. Posts are read once, into a row for each
-- kind of post, of which there are never many.
with kinds as materialized (
  select p.sentiment, p.intent, p.risk_level, p.platform, p.language, count(*) as n, count(*) filter (where p.fetch_status = 'error') as errors,
         min(p.at) as first_at, max(p.at) as last_at, sum(p.sentiment_score::float8) as score, sum(p.impact_score::float8) as impact,
         sum(p.view_count) as views, sum(p.like_count) as likes, sum(p.comment_count) as comments, sum(p.share_count) as shares,
         sum(p.save_count) as saves
  from post_analytics p
  where p.project_id = :project_id and p.at >= coalesce(:since, '-infinity'::timestamptz)
    and p.at < coalesce(:until, 'infinity'::timestamptz) and post_matches(p, :wanted)
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
-- How the comments below the posts feel.
select c.sentiment, count(*) as comments from post_analytics p join post_comments c using (post_key, stored_at)
where p.project_id = :project_id and p.intent is not null and c.sentiment is not null
  and p.at >= coalesce(:since, '-infinity'::timestamptz)
  and p.at < coalesce(:until, 'infinity'::timestamptz) and post_matches(p, :wanted)
group by 1 order by 1;

-- name: analytics_aspects
-- Which sides of a thing posts speak of, and how they feel about each.
select a.key as aspect, count(*) as posts,
       count(*) filter (where a.value ->> 'sentiment' = 'negative') as negative,
       count(*) filter (where a.value ->> 'sentiment' = 'neutral') as neutral,
       count(*) filter (where a.value ->> 'sentiment' = 'positive') as positive
from post_analytics p, jsonb_each(p.aspects) a
where p.project_id = :project_id and p.intent is not null and p.at >= coalesce(:since, '-infinity'::timestamptz)
  and p.at < coalesce(:until, 'infinity'::timestamptz) and post_matches(p, :wanted)
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
  and (:before_at::timestamptz is null or (p.at, p.post_key) < (:before_at::timestamptz, :before_key::uuid))
order by p.at desc, p.post_key desc limit :most::int;

-- name: analytics_posts_by_impact
-- Analysed posts, the weightiest first.
select p.post_key, p.id, p.platform, p.job_id, p.task_type, p.keyword_source, p.keyword_role, p.brand_name, p.at,
       p.published_at, p.crawled_at, p.permalink, p.content_text, p.hashtags, p.author_name, p.author_username,
       p.author_is_verified, p.follower_count, p.view_count, p.like_count, p.comment_count, p.share_count, p.save_count,
       p.language, p.flags, p.keywords, p.intent, p.intent_confidence, p.sentiment, p.sentiment_score, p.aspects,
       p.impact_score, p.risk_level, p.impact_breakdown, p.fetch_status, p.error_code, p.fetch_error
from post_analytics p
where p.project_id = :project_id and p.intent is not null and p.at >= coalesce(:since, '-infinity'::timestamptz)
  and p.at < coalesce(:until, 'infinity'::timestamptz) and post_matches(p, :wanted)
  and (:below::real is null or (p.impact_score, p.post_key) < (:below::real, :before_key::uuid))
order by p.impact_score desc, p.post_key desc limit :most::int;

-- name: analytics_comments
-- The comments of one post, the most liked first.
select c.comment_id, c.text, c.author_name, c.likes, c.sentiment, c.sentiment_score, c.commented_at
from post_identity i join post_comments c using (post_key, stored_at)
where i.project = :project_id and i.platform = :platform and i.content_id = :id
order by c.likes desc, c.comment_id limit :most::int;

-- name: analytics_trends
-- Volume and feeling over time, by the hour, day, week or month; silent stretches are left out.
select date_trunc(:bucket, p.at, 'UTC') as at, count(*) as posts,
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
group by 1 order by 1 desc limit :most::int;

-- name: analytics_keywords
-- What posts speak of most, and how they feel where they do.
select word as keyword, count(*) as posts,
       count(*) filter (where sentiment = 'negative') as negative,
       count(*) filter (where sentiment = 'positive') as positive,
       round(avg(sentiment_score)::numeric, 4)::float8 as sentiment_score,
       round(max(impact_score)::numeric, 1)::float8 as top_impact
from post_analytics p, unnest(p.keywords) word
where p.project_id = :project_id and p.intent is not null and p.at >= coalesce(:since, '-infinity'::timestamptz)
  and p.at < coalesce(:until, 'infinity'::timestamptz) and post_matches(p, :wanted)
group by 1 order by 2 desc, 1 limit :most::int;

-- name: analytics_errors
-- What went wrong while crawling, by category and code.
select error_category, error_code, count(*) as errors, count(distinct content_id) as posts,
       min(created_at) as first_at, max(created_at) as last_at
from crawl_errors
where project_id = :project_id and created_at >= coalesce(:since, '-infinity'::timestamptz)
  and created_at < coalesce(:until, 'infinity'::timestamptz)
group by 1, 2 order by 3 desc, 2;

-- name: analytics_error_list
-- Single errors, the newest first.
select id, content_id, job_id, platform, error_code, error_category, error_message, error_details, permalink, created_at
from crawl_errors
where project_id = :project_id and created_at >= coalesce(:since, '-infinity'::timestamptz)
  and created_at < coalesce(:until, 'infinity'::timestamptz)
  and (:code::text is null or error_code = :code::text)
  and (:before::bigint is null or id < :before::bigint)
order by id desc limit :most::int;

-- name: analytics_share_of_voice
-- How much is said of the brand and of each competitor, and how it feels.
with counted as (
  select coalesce(keyword_role, 'other') as role, keyword_source as keyword, count(*) as posts,
         sum(view_count)::bigint as views,
         sum(like_count + comment_count + share_count + save_count)::bigint as interactions,
         count(*) filter (where sentiment = 'negative') as negative,
         count(*) filter (where sentiment = 'positive') as positive,
         round(avg(sentiment_score)::numeric, 4)::float8 as sentiment_score
  from post_analytics p
  where p.project_id = :project_id and p.intent is not null and p.at >= coalesce(:since, '-infinity'::timestamptz)
    and p.at < coalesce(:until, 'infinity'::timestamptz) and post_matches(p, :wanted)
  group by 1, 2
)
select *, round(posts * 100.0 / sum(posts) over (), 2)::float8 as share_percent,
       coalesce(round(interactions * 100.0 / nullif(sum(interactions) over (), 0), 2), 0)::float8 as engagement_percent
from counted order by posts desc, role, keyword;

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
  and (:after_at::timestamptz is null or (p.at, p.post_key) > (:after_at::timestamptz, :after_key::uuid))
order by p.at, p.post_key limit :most::int;

-- name: analytics_projects
-- Projects that have posts, the liveliest first.
select project_id, count(*) as posts, max(at) as last_at from post_analytics
where project_id is not null group by 1 order by 2 desc limit :most::int;
