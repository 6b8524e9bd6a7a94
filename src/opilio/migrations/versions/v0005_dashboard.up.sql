-- Charts read one narrow row a minute, however many jobs ended in it.
create table figure_minute (
  minute       timestamptz primary key,
  pending      int,                        -- as seen when the minute was over, if somebody looked
  locked       int,
  due          int,
  bots_alive   int,
  done         int not null,               -- what ended in it
  failed       int not null,
  expired      int not null,
  retries      int[] not null,             -- ended jobs by retries: 0, 1, 2, 3, 4, more
  durations    int[] not null,             -- crawls by seconds: < 0.5, 1, 2, 5, 10, 30, 60, more
  crawls       int not null,               -- those that told how long they took
  seconds      double precision not null   -- and their sum
);

-- Both tables grow at their end, in the order of time: a few bytes for each hundred pages find a minute.
create index job_archive_finished on job_archive using brin (finished_at) with (pages_per_range = 32, autosummarize = on);
create index result_crawled on result using brin (crawled_at) with (pages_per_range = 32, autosummarize = on);

create table saved_view (
  view_id     uuid primary key default opilio_uuid7(),
  page        text not null,
  name        text not null,
  query       text not null,
  created_by  text not null,
  created_at  timestamptz not null default now(),
  unique (page, name)
);
