-- Makes the state of a new project; one that is there already stays as it is.
-- KEYS: the project's hash. ARGV: field, value, field, value …
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], unpack(ARGV))
return 1
