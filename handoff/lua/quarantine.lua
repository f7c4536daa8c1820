-- Set something aside, and count it. The oldest entries go when there are too many, or too many bytes of them.
-- KEYS[1]: quarantine. ARGV: prefix, entry, reason, most entries, most bytes, then for a message that a worker has in
-- hand: the list that it is taken out of, and the message. Returns 1, or 0 when it was set aside before.
local counts = prefix .. 'quarantined'
if ARGV[6] then
  if redis.call('LREM', ARGV[6], 1, ARGV[7]) == 0 then
    return 0
  end
else
  for _, entry in ipairs(redis.call('LRANGE', KEYS[1], 0, 31)) do
    if entry == ARGV[2] then
      return 0
    end
  end
end
redis.call('LPUSH', KEYS[1], ARGV[2])
redis.call('HINCRBY', counts, ARGV[3], 1)
local bytes = redis.call('HINCRBY', counts, '#bytes', #ARGV[2])
while redis.call('LLEN', KEYS[1]) > tonumber(ARGV[4]) or bytes > tonumber(ARGV[5]) do
  local oldest = redis.call('RPOP', KEYS[1])
  if not oldest then
    break
  end
  bytes = redis.call('HINCRBY', counts, '#bytes', -#oldest)
end
return 1
