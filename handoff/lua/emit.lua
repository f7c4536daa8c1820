-- Pass a piece of the answer to the caller, if the request is still this claim's. One that is sent again is passed once.
-- ARGV: prefix, rid, claim, sequence number, payload. Returns 1, or 0 when the request is no longer ours.
local f = redis.call('HMGET', KEYS[1], 'state', 'claim', 'reply', 'token', 'said')
if f[1] ~= 'admitted' or f[2] ~= ARGV[3] then
  return 0
end
if tonumber(ARGV[4]) <= tonumber(f[5] or -1) then
  return 1
end
redis.call('HSET', KEYS[1], 'said', ARGV[4])
redis.call('HSETNX', KEYS[1], 't_first_token', whole(now_ms()))
tell(f[3], ARGV[2], 'event', 'piece', 'token', f[4], 'claim', ARGV[3], 'seq', ARGV[4], 'piece', ARGV[5])
return 1
