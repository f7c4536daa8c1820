-- Count a request that was prepared a second time, and keep what differs.
-- KEYS[1]: what was found of a model. ARGV: prefix, model, counts as JSON, largest error, entry or nothing, most
-- entries, seconds that all of it is kept, and what makes this call one: a client that repeats it counts once.
if not redis.call('SET', prefix .. 'shadow-mark:' .. ARGV[8], '1', 'NX', 'EX', 60) then
  return 0
end
local notes = prefix .. 'shadow-notes:' .. ARGV[2]
for name, by in pairs(cjson.decode(ARGV[3])) do
  redis.call('HINCRBY', KEYS[1], name, by)
end
local largest = tonumber(redis.call('HGET', KEYS[1], 'max_abs_error') or '0')
if tonumber(ARGV[4]) > largest then
  redis.call('HSET', KEYS[1], 'max_abs_error', ARGV[4])
end
if ARGV[5] ~= '' then
  redis.call('LPUSH', notes, ARGV[5])
  redis.call('LTRIM', notes, 0, ARGV[6] - 1)
end
redis.call('EXPIRE', KEYS[1], ARGV[7])
redis.call('EXPIRE', notes, ARGV[7])
return 1
