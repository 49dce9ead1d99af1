-- Units that are held until it is known what was spent, beside any rule that is additive.
-- `settled.rs` says the same in Rust.
--
-- A cost fits if the rule has room for it together with all that is held. What is held is kept as
-- two generations, of which the later one takes holds. When one has ended, what it still holds is
-- spent, as of its end. A limit that does not hold charges its cost at once, beside what others of
-- its name hold.
--
-- Given    must, settles   whether it is charged whatever the rule says; whether it is a settlement
--          now         microseconds
--          cost        units that are held, spent or charged
--          at_most     how long a generation lasts after its last hold, at least, and half of how
--                      long it lasts in all; 0 if the cost is not held, but charged
--          named       in a settlement: the start of the generation that holds
--          taken       in a settlement: how many units it frees there
--          start, end, held of the earlier generation and of the later one: when it began, when it
--                      ends, and the units that it holds
-- Returns  the units that are charged, and the generations
local function held(must, settles, now, cost, at_most, named, taken, e_start, e_end, e_held,
  l_start, l_end, l_held)
  if at_most == 0 or cost == 0 and not must then
    -- Nothing is held.
  elseif settles then
    if named > 0 and named == e_start and e_held > 0 then
      e_held = math.max(e_held - taken, 0)
    elseif named > 0 and named == l_start and l_held > 0 then
      l_held = math.max(l_held - taken, 0)
    else
      -- The hold is gone: only what was spent beyond it is charged.
      cost = math.max(cost - taken, 0)
    end
  elseif not must then
    -- What nobody holds is as good as gone.
    if e_held + l_held == 0 then l_start, l_end = 0, 0 end
    local at = now > l_start and now or l_start
    if at + at_most >= l_end then
      if e_held > 0 and l_held > 0 then
        -- Another limit of this name holds for longer: both generations still run.
        l_end = at + at_most
      else
        if l_held > 0 then e_start, e_end, e_held = l_start, l_end, l_held end
        -- No two generations begin at the same instant.
        l_start, l_end, l_held = math.max(at, l_start + 1), at + 2 * at_most, 0
      end
    end
    l_held, cost = l_held + cost, 0
  end
  return cost, e_start, e_end, e_held, l_start, l_end, l_held
end

-- Of generations that have ended the first: what it held, its end but no earlier than the state,
-- and what both hold then.
local function held_ended(last, now, e_end, e_held, l_end, l_held)
  if l_held > 0 and l_end <= now and (e_held == 0 or l_end < e_end) then
    return l_held, math.max(last, l_end), e_held, 0
  end
  return e_held, math.max(last, e_end), 0, l_held
end
