-- Writes each state unless a newer version is there.
-- KEYS: a project's hash and its version, for each state. ARGV: its version and its fields as a JSON list of names and values.
local written = 0
for at = 1, #KEYS, 2 do
  local current = redis.call('GET', KEYS[at + 1])
  if not current or tonumber(current) <= tonumber(ARGV[at]) or redis.call('EXISTS', KEYS[at]) == 0 then
    redis.call('HSET', KEYS[at], unpack(cjson.decode(ARGV[at + 1])))
    redis.call('SET', KEYS[at + 1], ARGV[at])
    written = written + 1
  end
end
return written
