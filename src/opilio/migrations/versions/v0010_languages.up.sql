-- No sentiment is invented for a language that the model does not know. An analysed post always has an intent.
alter table post_comments alter column sentiment drop not null, alter column sentiment_score drop not null;
drop index idx_post_analytics_project_impact;
create index idx_post_analytics_project_impact on post_analytics (project_id, impact_score desc, post_key desc)
  where intent is not null;
