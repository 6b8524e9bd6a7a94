drop table post_digest;
drop view post_fact;
drop function post_found_by(uuid, text[], jsonb);
create or replace function post_matches(p post_analytics, wanted jsonb) returns boolean
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
drop table post_keywords;
drop table analytics_project;
alter table project drop column time_zone;
