-- The row of a host knows only its last cooling; its page shows them over time.
create table host_cooling (
  host_id   int not null references host on delete cascade,
  began_at  timestamptz not null,
  until     timestamptz not null,
  reason    text not null,
  primary key (host_id, began_at),
  check (until > began_at)
);
