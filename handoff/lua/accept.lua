-- Create the record of a request, unless its id is running or the deployment is full.
-- ARGV: prefix, rid, token of this acceptance, most live requests, recheck ms, time to the deadline ms, then fields.
-- Returns {'ok', deadline} | {'duplicate', state} | {'busy', live}.
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
local now = now_ms()
deadline = whole(now + tonumber(ARGV[6]))
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'state', 'accepted', 'token', ARGV[3], 'attempt', 1, 'deadline', deadline,
  't_accepted', whole(now), unpack(ARGV, 7))
redis.call('ZADD', prefix .. 'due', next_look(now, ARGV[5], deadline), ARGV[2])
return {'ok', deadline}
