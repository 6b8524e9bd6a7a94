-- The last visit of an adaptive page: what it saw (1 changed, 0 not) minus what was expected, and the days before it.
alter table policy_state add column surprise real, add column gap_days real;

-- How surprises of pages in one folder go together; null while they seem independent.
alter table host add column siblings double precision, add column sibling_sums double precision[];

-- A number for the folder of a URL: without its query, an index file and its last part.
create function opilio_folder(url text) returns bigint language sql immutable strict parallel safe as $$
  select hashtextextended(regexp_replace(regexp_replace(regexp_replace(
    url, '[?#].*$', ''), '/+((index|default)(\.[^/]*)?)?$', '', 'i'), '/[^/]*$', ''), 0)
$$;
create index policy_folder on policy (host_id, opilio_folder(url)) where pool is not null and deleted_at is null;

-- Folders with a change whose siblings are still to be looked at.
create table sibling_change (
  change_id  bigint generated always as identity primary key,
  host_id    int not null,
  folder     bigint not null
);
