-- A job of a policy that was deleted before may still be locked, and end later.
insert into former_url (url_hash, policy_id)
select hashtextextended(p.url, 0), p.policy_id from policy p where p.deleted_at is not null
on conflict do nothing;
