-- Create the record of a request, unless its id is running, its tenant has enough, or the deployment is full.
-- ARGV: prefix, rid, token of this acceptance, most live requests, time to the deadline ms, tenant, bytes of its media,
-- most of the tenant: live requests, bytes, requests a second (0 for no limit), reply, then fields.
-- Returns {'ok', deadline} | {'duplicate', state} | {'busy', live} | {'over', limit's name, have, limit, wait ms}.
local state, token, deadline = unpack(redis.call('HMGET', KEYS[1], 'state', 'token', 'deadline'))
if state and token == ARGV[3] then
  return {'ok', deadline}
end
if state and not ENDS[state] then
  return {'duplicate', state}
end
local live = redis.call('ZCARD', prefix .. 'due')
if live >= tonumber(ARGV[4]) then
  return {'busy', live}
end

local now, tenant, size, reply = now_ms(), ARGV[6], tonumber(ARGV[7]), ARGV[11]
local most_live, most_bytes, rate = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
local account = prefix .. 'tenant:' .. tenant
local a = redis.call('HMGET', account, 'live', 'bytes', 'next')
local has_live, has_bytes, next_free = tonumber(a[1] or 0), tonumber(a[2] or 0), tonumber(a[3] or 0)
if most_live > 0 and has_live >= most_live then
  return {'over', 'live', has_live, most_live, 1000}
end
if most_bytes > 0 and has_bytes + size > most_bytes then
  return {'over', 'bytes', whole(has_bytes + size), whole(most_bytes), 1000}
end
if rate > 0 then
  -- Each request takes its share of a second; one second's worth may come at once.
  -- Nobody has to wait for longer than this rate has it: it may have been lower before, or the clock been ahead.
  local share = 1000 / rate
  next_free = math.min(next_free, now + math.max(1000, share))
  local earliest = math.max(next_free, now) + share - math.max(1000, share)
  if earliest > now then
    return {'over', 'rate', 0, ARGV[10], whole(math.ceil(earliest - now))}
  end
  redis.call('HSET', account, 'next', math.max(next_free, now) + share)
end
redis.call('HINCRBY', account, 'live', 1)
redis.call('HINCRBY', account, 'bytes', size)

deadline = whole(now + tonumber(ARGV[5]))
redis.call('DEL', KEYS[1], prefix .. 'log:' .. ARGV[2])
redis.call('HSET', KEYS[1], 'state', 'accepted', 'token', ARGV[3], 'attempt', 1, 'deadline', deadline,
  'tenant', tenant, 'size', size, 'reply', reply, 't_accepted', whole(now), unpack(ARGV, 12))
redis.call('ZADD', prefix .. 'due', deadline, ARGV[2])
redis.call('ZREM', prefix .. 'ended:' .. tenant, ARGV[2])
redis.call('ZADD', prefix .. 'asked:' .. tenant, whole(now), ARGV[2])
redis.call('PERSIST', prefix .. 'asked:' .. tenant)
redis.call('PERSIST', prefix .. 'ended:' .. tenant)
tell_state(reply, ARGV[2], 'accepted', 1)
return {'ok', deadline}
