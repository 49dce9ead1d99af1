-- Runs the script of one state for each of several states, in a single command.
--
-- Given  one      a function of the keys and the argument of one state, which replies numbers
-- Reply  the replies for all states, one after the other; zeros for a value that no script wrote
-- Error  that of a command that the server refuses
--
-- Words in capitals stand for what the composer puts there: KEYS_OF_ONE for how many keys a state
-- has, and BYTES_OF_ONE for the length of a reply.
--- each
local replies = {}
for at = 1, #ARGV do
  local keys = {}
  for number = 1, KEYS_OF_ONE do keys[number] = KEYS[(at - 1) * KEYS_OF_ONE + number] end
  local runs, reply = pcall(one, keys, {ARGV[at]})
  if not runs or type(reply) == 'table' then
    -- A value that no script wrote is passed over. If the server cannot write, all fail.
    local message = type(reply) == 'table' and reply.err or reply
    local is_foreign = string.find(message, 'WRONGTYPE', 1, true)
      or string.find(message, 'UNREADABLE', 1, true)
    if not is_foreign then error(reply, 0) end
    reply = string.rep('\0', BYTES_OF_ONE)
  end
  replies[at] = reply
end
return table.concat(replies)
