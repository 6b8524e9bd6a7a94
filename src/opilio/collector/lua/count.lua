-- Adds tallies to one project: dedupe, counters, legacy fields, the move to DONE, all in this one step.
-- KEYS: the project's hash, the set of counted identities, the set of changed projects.
-- ARGV: project id, then the tallies as JSON: for each its identity and seven numbers in the order of `counters`.
-- Answers for each tally: 1 counted, 0 repeated, -1 no such project.
local counters = {'tasks_done', 'tasks_errors', 'items_actual', 'items_errors',
                  'analyze_total', 'analyze_done', 'analyze_errors'}
local answers, fresh, sums = {}, false, {0, 0, 0, 0, 0, 0, 0}
local known = redis.call('EXISTS', KEYS[1]) == 1

for i, tally in ipairs(cjson.decode(ARGV[2])) do
  local added = known and redis.call('SADD', KEYS[2], tally[1]) or -1
  answers[i] = added
  if added == 1 then
    fresh = true
    for n = 1, 7 do sums[n] = sums[n] + tally[n + 1] end
  end
end
if not fresh then return answers end

for n, name in ipairs(counters) do
  if sums[n] ~= 0 then redis.call('HINCRBY', KEYS[1], name, sums[n]) end
end
if sums[3] ~= 0 then redis.call('HINCRBY', KEYS[1], 'crawl_done', sums[3]) end
if sums[4] ~= 0 then redis.call('HINCRBY', KEYS[1], 'crawl_errors', sums[4]) end

local now = redis.call('HMGET', KEYS[1], 'status', 'tasks_total', 'tasks_done', 'tasks_errors',
                       'analyze_total', 'analyze_done', 'analyze_errors', 'crawl_total', 'crawl_done', 'crawl_errors')
for n = 2, 10 do now[n] = tonumber(now[n]) or 0 end
local crawled = now[3] + now[4] >= now[2]
if now[2] == 0 then crawled = now[9] + now[10] >= now[8] end
local analyzed = now[5] == 0 or now[6] + now[7] >= now[5]
if now[1] ~= 'DONE' then
  redis.call('HSET', KEYS[1], 'status', (crawled and analyzed) and 'DONE' or 'PROCESSING')
end
redis.call('SADD', KEYS[3], ARGV[1])
return answers
