-- provision(count, size, replace, after_ms): create what is missing of so many partitions, to be had after so long.
-- Answers the size that was there, or an empty text, and the numbers of those that were made. With another size nothing
-- is changed, unless it is replaced.

local before = redis.call('GET', size_key) or ''
if before ~= '' and before ~= ARGV[2] and ARGV[3] ~= '1' then
  return {before}
end
redis.call('SET', size_key, ARGV[2])
local made = {before}
local nobodys = written(now_us + tonumber(ARGV[4]) * 1000) .. ' '
for number = 0, tonumber(ARGV[1]) - 1 do
  if redis.call('HSETNX', partitions_key, number, nobodys) == 1 then
    made[#made + 1] = number
  end
end
return made
