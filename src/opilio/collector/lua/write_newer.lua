-- Writes a state unless a newer version is there.
-- KEYS: the project's hash, its version. ARGV: version, field, value, field, value …
local current = redis.call('GET', KEYS[2])
if current and tonumber(current) > tonumber(ARGV[1]) and redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], unpack(ARGV, 2))
redis.call('SET', KEYS[2], ARGV[1])
return 1
