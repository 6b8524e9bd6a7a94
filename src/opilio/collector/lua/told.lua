-- A version was told: the project is no longer changed, unless it has changed again.
-- KEYS: the set of counted identities, the set of changed projects. ARGV: project id, version.
if redis.call('SCARD', KEYS[1]) > tonumber(ARGV[2]) then return 0 end
return redis.call('SREM', KEYS[2], ARGV[1])
