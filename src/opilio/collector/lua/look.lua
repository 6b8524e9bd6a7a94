-- The state of a project with its version, which is the number of counted results.
-- KEYS: the project's hash, the set of counted identities.
return {redis.call('SCARD', KEYS[2]), redis.call('HGETALL', KEYS[1])}
