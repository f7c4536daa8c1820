-- Put a request's message on a node's queue, in the same step that says so in the record.
-- ARGV: prefix, rid, token, attempt, body, node, lane, message, bytes of its media by now (-1: as before),
-- recheck ms, most bytes of the tenant (0 for no limit).
-- Returns {'ok'} | {'refused', state or ''} | {'over', limit's name, have, limit, wait ms}.
local f = redis.call('HMGET', KEYS[1], 'state', 'token', 'attempt', 'reply', 'model', 'tenant', 'size')
local state, token, attempt, reply = unpack(f)
if not state or token ~= ARGV[3] or attempt ~= ARGV[4] then
  return {'refused', state or ''}
end
if state == 'accepted' then
  local now = now_ms()
  if tonumber(ARGV[9]) >= 0 then
    local account, more, most = prefix .. 'tenant:' .. f[6], ARGV[9] - f[7], tonumber(ARGV[11])
    local has = more + (redis.call('HGET', account, 'bytes') or 0)
    if more > 0 and most > 0 and has > most then
      return {'over', 'bytes', whole(has), whole(most), 1000}
    end
    redis.call('HINCRBY', account, 'bytes', whole(more))
    redis.call('HSET', KEYS[1], 'size', ARGV[9])
  end
  redis.call('HSET', KEYS[1], 'state', 'queued', 'body', ARGV[5], 'node', ARGV[6], 'lane', ARGV[7],
    't_queued', whole(now), 'message', ARGV[8])
  stand_in_line(ARGV[6], ARGV[7], ARGV[2], now)
  watch(ARGV[6], f[5], ARGV[2], now + tonumber(ARGV[10]))
  push(ARGV[6], ARGV[7], ARGV[8], 'LEFT')
  ring(ARGV[6])
  tell_state(reply, ARGV[2], 'queued', attempt)
  return {'ok'}
end
if ENDS[state] then
  return {'refused', state}
end
return {'ok'}
