-- ack(now, count): so many items are done. Answers {pending, end}, where end is what this call ended it as, or nil.
-- Repeated, it counts again; pending falls below zero rather than hide that.

if not known then
  return false
end
touch()
return {redis.call('HINCRBY', key, 'pending', '-' .. ARGV[2]), finish()}
