-- Runs what is composed for one state for each of several, in a single command.
--
-- Given  one      a function of the keys and the argument of one state, which replies numbers
-- Reply  what was replied for each, one after the other; zeros for a state that no script wrote
--
-- Words in capitals stand for what the composer puts there: KEYS_OF_ONE for how many keys a state
-- has, and BYTES_OF_ONE for the length of a reply.
--- each
local replies = {}
for at = 1, #ARGV do
  local keys = {}
  for number = 1, KEYS_OF_ONE do keys[number] = KEYS[(at - 1) * KEYS_OF_ONE + number] end
  local reply = one(keys, {ARGV[at]})
  if type(reply) ~= 'string' then reply = string.rep('\0', BYTES_OF_ONE) end
  replies[at] = reply
end
return table.concat(replies)
