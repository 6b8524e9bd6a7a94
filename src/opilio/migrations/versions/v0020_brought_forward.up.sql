-- Counts until the next successful visit.
alter table policy_state add column brought_forward_at timestamptz;
