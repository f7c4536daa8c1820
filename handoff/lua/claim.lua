-- A scheduler takes the tickets that fit the room it states, in order, under a lease. It stops at the first that
-- does not fit, so that a large request is not overtaken for ever.
-- It looks a little further than it may take: tickets that have passed their deadline must not hide those behind them.
-- KEYS[1]: parked set. ARGV: prefix, scheduler, nonce of this call, node, model, most tickets, token room, lease ms.
-- Returns a flat list: rid, ticket, lapses, rid, ticket, lapses, … The lapses tell a later claim from an earlier one.
local mine = prefix .. 'claimed:' .. ARGV[2]
local leases = lane_key('leases', ARGV[4], ARGV[5])
local reply = {}

local function give(rid)
  local f = redis.call('HMGET', prefix .. 'r:' .. rid, 'ticket', 'lapses')
  reply[#reply + 1] = rid
  reply[#reply + 1] = f[1]
  reply[#reply + 1] = f[2] or '0'
end

if redis.call('HGET', mine, 'nonce') == ARGV[3] then
  for rid in string.gmatch(redis.call('HGET', mine, 'rids'), '[^\n]+') do
    if redis.call('HGET', prefix .. 'r:' .. rid, 'claim') == ARGV[3] then
      give(rid)
    end
  end
  return reply
end

local now, most, room, taken = now_ms(), tonumber(ARGV[6]), tonumber(ARGV[7]), {}
for _, rid in ipairs(redis.call('ZRANGE', KEYS[1], 0, most + 99)) do
  if #taken == most then
    break
  end
  local record = prefix .. 'r:' .. rid
  local f = redis.call('HMGET', record, 'state', 'tokens', 'deadline', 'reply', 'attempt')
  if f[1] ~= 'parked' then
    redis.call('ZREM', KEYS[1], rid)
  elseif now < tonumber(f[3]) then
    -- One that has passed its deadline stays for the reconciler, which ends it and frees its block.
    room = room - tonumber(f[2])
    if room < 0 then
      break
    end
    redis.call('ZREM', KEYS[1], rid)
    redis.call('ZADD', leases, whole(now + tonumber(ARGV[8])), rid)
    keep(leases)
    redis.call('HSET', record, 'state', 'admitted', 'claim', ARGV[3], 'scheduler', ARGV[2], 't_admitted', whole(now))
    redis.call('HDEL', record, 'said') -- a new claim counts its pieces anew
    taken[#taken + 1] = rid
    tell_state(f[4], rid, 'admitted', f[5])
    give(rid)
  end
end
redis.call('HSET', mine, 'nonce', ARGV[3], 'rids', table.concat(taken, '\n'))
redis.call('PEXPIRE', mine, 60000)
return reply
