drop index idx_post_analytics_project_impact;
create index idx_post_analytics_project_impact on post_analytics (project_id, impact_score desc, post_key desc)
  where sentiment is not null;
update post_comments set sentiment = 'neutral', sentiment_score = 0 where sentiment is null;
alter table post_comments alter column sentiment set not null, alter column sentiment_score set not null;
