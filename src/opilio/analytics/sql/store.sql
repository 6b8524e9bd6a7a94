-- name: claim_batch
-- Takes a batch, unless it was stored with this content, or its event with another batch. A failure replaces nothing.
insert into analysed_batch (batch_key, event_id, project_id, job_id, status, success_count, error_count, fetch_error_count,
                            content_digest, processed_at)
select :batch_key, :event_id, :project_id, :job_id, :status, :success_count, :error_count, :fetch_error_count, :digest, :now
where not exists (
  select from analysed_batch where event_id = :event_id and batch_key <> :batch_key and status = 'done')
on conflict (batch_key) do update
  set status = excluded.status, success_count = excluded.success_count, error_count = excluded.error_count,
      fetch_error_count = excluded.fetch_error_count, content_digest = excluded.content_digest,
      processed_at = excluded.processed_at
  where excluded.status = 'done'
    and (analysed_batch.status = 'failed' or analysed_batch.content_digest not in ('', excluded.content_digest))
returning true;

-- name: event_has_other_batch
-- Whether an event was stored with another batch.
select exists (select from analysed_batch where event_id = :event_id and batch_key <> :batch_key and status = 'done');

-- name: batch_is_done
-- Whether a batch was analysed with this content; without a digest, any content is taken for it.
select exists (select from analysed_batch
               where batch_key = :batch_key and status = 'done' and content_digest in ('', :digest));

-- name: claim_identities
-- Gives every new post its identity; in the order of the key, so that batches that share posts do not lock each other.
insert into post_identity (project, platform, content_id, stored_at)
select coalesce(p.project_id, ''), p.platform, p.id, :now
from jsonb_to_recordset(:identities) as p(project_id text, platform text, id text)
order by 1, 2, 3
on conflict do nothing;

-- name: know_projects
-- The projects of the batch, each with the zone that its days are counted in: its own, or the installation's.
insert into analytics_project (project_id, time_zone)
select distinct i.project_id, coalesce((select p.time_zone from project p where p.project_id = i.project_id), :time_zone)
from jsonb_to_recordset(:identities) as i(project_id text)
where i.project_id is not null
order by 1
on conflict do nothing;

-- name: lock_posts
-- The posts of the batch that are there already: what they add to the digest must not change meanwhile.
select count(*) from (
  select from jsonb_to_recordset(:identities) as b(project_id text, platform text, id text)
  join post_identity i on (i.project, i.platform, i.content_id) = (coalesce(b.project_id, ''), b.platform, b.id)
  join post_analytics p on p.post_key = i.post_key and p.stored_at = i.stored_at
  order by i.post_key for update of p) locked;

-- name: digest_before
-- What the posts of the batch add to the digest before they are written.
select coalesce(jsonb_agg(to_jsonb(f) - 'post_key' - 'stored_at'), '[]')
from jsonb_to_recordset(:identities) as b(project_id text, platform text, id text)
join post_identity i on (i.project, i.platform, i.content_id) = (coalesce(b.project_id, ''), b.platform, b.id)
join post_fact f on f.post_key = i.post_key and f.stored_at = i.stored_at;

-- name: keep_digest
-- Moves the digest by the difference between what the posts of the batch add now and what they added before.
with changed as (
  select f.project_id, f.kind, f.day, f.key, f.posts, f.errors, f.negative, f.neutral, f.positive, f.scored, f.score,
         f.impact, f.top_impact, f.views, f.likes, f.comments, f.shares, f.saves
  from jsonb_to_recordset(:identities) as b(project_id text, platform text, id text)
  join post_identity i on (i.project, i.platform, i.content_id) = (coalesce(b.project_id, ''), b.platform, b.id)
  join post_fact f on f.post_key = i.post_key and f.stored_at = i.stored_at
  union all
  select o.project_id, o.kind, o.day, o.key, -o.posts, -o.errors, -o.negative, -o.neutral, -o.positive, -o.scored, -o.score,
         -o.impact, 0, -o.views, -o.likes, -o.comments, -o.shares, -o.saves
  from jsonb_to_recordset(:before) as o(
    project_id text, kind text, day date, key text, posts bigint, errors bigint, negative bigint, neutral bigint,
    positive bigint, scored bigint, score float8, impact float8, views bigint, likes bigint, comments bigint,
    shares bigint, saves bigint)
)
insert into post_digest as d
select project_id, kind, day, key, sum(posts), sum(errors), sum(negative), sum(neutral), sum(positive), sum(scored),
       sum(score), sum(impact), max(top_impact), sum(views), sum(likes), sum(comments), sum(shares), sum(saves)
from changed group by 1, 2, 3, 4
having sum(posts) <> 0 or sum(errors) <> 0 or sum(negative) <> 0 or sum(neutral) <> 0 or sum(positive) <> 0
    or sum(score) <> 0 or sum(impact) <> 0 or sum(views) <> 0 or sum(likes) <> 0 or sum(comments) <> 0
    or sum(shares) <> 0 or sum(saves) <> 0
order by 1, 2, 3, 4
on conflict (project_id, kind, day, key) do update set
  posts = d.posts + excluded.posts, errors = d.errors + excluded.errors, negative = d.negative + excluded.negative,
  neutral = d.neutral + excluded.neutral, positive = d.positive + excluded.positive, scored = d.scored + excluded.scored,
  score = d.score + excluded.score, impact = d.impact + excluded.impact,
  top_impact = greatest(d.top_impact, excluded.top_impact), views = d.views + excluded.views,
  likes = d.likes + excluded.likes, comments = d.comments + excluded.comments, shares = d.shares + excluded.shares,
  saves = d.saves + excluded.saves;

-- name: store_keywords
-- By which keyword each post was found, and for whom; a post found by two belongs to both.
insert into post_keywords as kept (project_id, post_key, stored_at, keyword, role, first_seen, last_seen)
select p.project_id, i.post_key, i.stored_at, p.keyword_source, coalesce(p.keyword_role, 'other'), :now, :now
from jsonb_to_recordset(:identities) as p(
  id text, project_id text, platform text, keyword_source text, keyword_role text)
join post_identity i on (i.project, i.platform, i.content_id) = (p.project_id, p.platform, p.id)
where p.keyword_source is not null
order by i.post_key
on conflict (post_key, keyword, role) do update set last_seen = greatest(kept.last_seen, excluded.last_seen);

-- name: delete_old_keywords
-- Keywords of posts whose month is gone.
delete from post_keywords k where k.stored_at < date_trunc('month', :before::timestamptz, 'UTC')
  and not exists (select from post_analytics p where p.post_key = k.post_key and p.stored_at = k.stored_at);

-- name: block_digest
-- No batch may write while the digest of a project is made again.
lock table post_digest in share row exclusive mode;

-- name: wrong_digests
-- Projects whose digest counts more or fewer posts than they have: some were dropped.
select z.project_id from analytics_project z
where (select coalesce(sum(d.posts), 0) from post_digest d where d.project_id = z.project_id and d.kind = 'all')
   <> (select count(*) from post_analytics p where p.project_id = z.project_id)
order by z.project_id;

-- name: clear_digest
-- The digest of a project.
delete from post_digest where project_id = :project_id::text;

-- name: rebuild_digest
-- The digest of a project, from its posts.
insert into post_digest
select project_id, kind, day, key, sum(posts), sum(errors), sum(negative), sum(neutral), sum(positive), sum(scored),
       sum(score), sum(impact), max(top_impact), sum(views), sum(likes), sum(comments), sum(shares), sum(saves)
from post_fact f where f.project_id = :project_id::text
group by 1, 2, 3, 4;

-- name: store_posts
-- One row per post. A later crawl replaces it; an error keeps what an earlier crawl brought and says why there is no newer.
insert into post_analytics as kept (
  post_key, stored_at, id, project_id, job_id, batch_index, task_type, platform, keyword_source, keyword_role, brand_name,
  crawled_at, published_at, pipeline_version, permalink, content_text, content_transcription, media_duration, hashtags,
  author_id, author_name, author_username, author_avatar_url, author_is_verified, follower_count,
  view_count, like_count, comment_count, share_count, save_count, language, flags, keywords, intent, intent_confidence,
  sentiment, sentiment_score, sentiment_probabilities, aspects, impact_score, risk_level, impact_breakdown,
  model_version, processing_time_ms, analyzed_at, fetch_status, fetch_error, error_code, error_details)
select
  i.post_key, i.stored_at, p.id, p.project_id, p.job_id, p.batch_index, p.task_type, p.platform, p.keyword_source,
  p.keyword_role, p.brand_name, p.crawled_at, p.published_at, p.pipeline_version, p.permalink, p.content_text,
  p.content_transcription, p.media_duration, coalesce(p.hashtags, '{}'), p.author_id, p.author_name, p.author_username,
  p.author_avatar_url, p.author_is_verified, coalesce(p.follower_count, 0), coalesce(p.view_count, 0),
  coalesce(p.like_count, 0), coalesce(p.comment_count, 0), coalesce(p.share_count, 0), coalesce(p.save_count, 0),
  p.language, coalesce(p.flags, '{}'), coalesce(p.keywords, '{}'), p.intent, p.intent_confidence, p.sentiment,
  p.sentiment_score, p.sentiment_probabilities, coalesce(p.aspects, '{}'), p.impact_score, p.risk_level,
  coalesce(p.impact_breakdown, '[]'), p.model_version, p.processing_time_ms, :now, p.fetch_status, p.fetch_error,
  p.error_code, p.error_details
from jsonb_to_recordset(:posts) as p(
  id text, project_id text, job_id text, batch_index int, task_type text, platform text, keyword_source text,
  keyword_role text, brand_name text, crawled_at timestamptz, published_at timestamptz, pipeline_version text,
  permalink text, content_text text, content_transcription text, media_duration double precision, hashtags text[],
  author_id text, author_name text, author_username text, author_avatar_url text, author_is_verified boolean,
  follower_count bigint, view_count bigint, like_count bigint, comment_count bigint, share_count bigint,
  save_count bigint, language text, flags text[], keywords text[], intent text, intent_confidence real, sentiment text,
  sentiment_score real, sentiment_probabilities jsonb, aspects jsonb, impact_score real, risk_level text,
  impact_breakdown jsonb, model_version text, processing_time_ms real, fetch_status text, fetch_error text,
  error_code text, error_details jsonb)
join post_identity i on (i.project, i.platform, i.content_id) = (coalesce(p.project_id, ''), p.platform, p.id)
on conflict (post_key, stored_at) do update set
  job_id = excluded.job_id, batch_index = excluded.batch_index, task_type = excluded.task_type,
  -- A post that is crawled again by its link has no keyword: it keeps the one that found it.
  keyword_source = coalesce(excluded.keyword_source, kept.keyword_source),
  keyword_role = case when excluded.keyword_source is null then coalesce(excluded.keyword_role, kept.keyword_role)
                      else excluded.keyword_role end,
  brand_name = coalesce(excluded.brand_name, kept.brand_name),
  crawled_at = excluded.crawled_at, pipeline_version = excluded.pipeline_version,
  published_at = coalesce(excluded.published_at, kept.published_at),
  permalink = coalesce(excluded.permalink, kept.permalink),
  fetch_status = excluded.fetch_status, fetch_error = excluded.fetch_error, error_code = excluded.error_code,
  error_details = excluded.error_details, analyzed_at = excluded.analyzed_at,
  (content_text, content_transcription, media_duration, hashtags, author_id, author_name, author_username,
   author_avatar_url, author_is_verified, follower_count, view_count, like_count, comment_count, share_count, save_count,
   language, flags, keywords, intent, intent_confidence, sentiment, sentiment_score, sentiment_probabilities, aspects,
   impact_score, risk_level, impact_breakdown, model_version, processing_time_ms) =
  (select w.* from (select
     excluded.content_text, excluded.content_transcription, excluded.media_duration, excluded.hashtags,
     excluded.author_id, excluded.author_name, excluded.author_username, excluded.author_avatar_url,
     excluded.author_is_verified, excluded.follower_count, excluded.view_count, excluded.like_count,
     excluded.comment_count, excluded.share_count, excluded.save_count, excluded.language, excluded.flags,
     excluded.keywords, excluded.intent, excluded.intent_confidence, excluded.sentiment, excluded.sentiment_score,
     excluded.sentiment_probabilities, excluded.aspects, excluded.impact_score, excluded.risk_level,
     excluded.impact_breakdown, excluded.model_version, excluded.processing_time_ms
   where excluded.fetch_status = 'success'
   union all select
     kept.content_text, kept.content_transcription, kept.media_duration, kept.hashtags,
     kept.author_id, kept.author_name, kept.author_username, kept.author_avatar_url,
     kept.author_is_verified, kept.follower_count, kept.view_count, kept.like_count,
     kept.comment_count, kept.share_count, kept.save_count, kept.language, kept.flags,
     kept.keywords, kept.intent, kept.intent_confidence, kept.sentiment, kept.sentiment_score,
     kept.sentiment_probabilities, kept.aspects, kept.impact_score, kept.risk_level,
     kept.impact_breakdown, kept.model_version, kept.processing_time_ms
   where excluded.fetch_status <> 'success') w)
-- A batch that was delayed does not undo a newer crawl.
where excluded.crawled_at is null or kept.crawled_at is null or excluded.crawled_at >= kept.crawled_at;

-- name: store_comments
-- The comments of the batch's posts, each once.
insert into post_comments as kept (
  post_key, stored_at, comment_id, text, author_name, likes, sentiment, sentiment_score, commented_at, created_at)
select i.post_key, i.stored_at, c.comment_id, c.text, c.author_name, c.likes, c.sentiment, c.sentiment_score,
       c.commented_at, :now
from jsonb_to_recordset(:comments) as c(
  project_id text, platform text, id text, comment_id text, text text, author_name text, likes bigint, sentiment text,
  sentiment_score real, commented_at timestamptz)
join post_identity i on (i.project, i.platform, i.content_id) = (coalesce(c.project_id, ''), c.platform, c.id)
on conflict (post_key, stored_at, comment_id) do update
  set text = excluded.text, likes = excluded.likes, sentiment = excluded.sentiment,
      sentiment_score = excluded.sentiment_score;

-- name: store_errors
-- What went wrong while crawling, item by item.
insert into crawl_errors (
  content_id, project_id, job_id, platform, error_code, error_category, error_message, error_details, permalink, created_at)
select content_id, project_id, job_id, platform, error_code, error_category, error_message, error_details, permalink, :now
from jsonb_to_recordset(:errors) as e(
  content_id text, project_id text, job_id text, platform text, error_code text, error_category text, error_message text,
  error_details jsonb, permalink text);

-- name: raise_alerts
-- An event for each post whose risk rose to high or above: once for each level, however often the post is crawled.
with risen as (
  update post_identity i set alerted = a.level
  from jsonb_to_recordset(:alerts) as a(project_id text, platform text, id text, level smallint, data jsonb)
  where (i.project, i.platform, i.content_id) = (a.project_id, a.platform, a.id) and i.alerted < a.level
  returning a.project_id, a.data
)
insert into event (type, subject, data, occurred_at)
select :type, project_id, data, :now from risen;

-- name: raise_parsing_errors
-- An event for a batch of which too many items could not be parsed.
insert into event (type, subject, data, occurred_at) values (:type, :subject, :data, :now);

-- name: announce_result
-- The message that tells the collector how the batch ended, from the same transaction.
insert into outbox (type, subject, data, occurred_at, exchange, routing_key, correlation_id, headers)
values (:type, :project_id, :data, :now, :exchange, :routing_key, :job_id, :headers);

-- name: delete_old_identities
-- Identities of posts whose month was dropped.
delete from post_identity i
where i.stored_at < date_trunc('month', :before::timestamptz, 'UTC')
  and not exists (select from post_analytics p where p.post_key = i.post_key and p.stored_at = i.stored_at);

-- name: delete_old_batches
delete from analysed_batch where processed_at < :before;
