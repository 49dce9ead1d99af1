-- Units that are held until it is known what was spent, beside any rule that is additive.
-- `settled.rs` says the same in Rust.
--
-- A cost fits if the rule has room for it together with all that is held. What is held is kept as
-- two generations, of which the later one takes holds. When one has ended, what it still holds is
-- spent, as of its end. A limit that does not hold charges its cost at once, beside what others of
-- its name hold.
--
-- Given    rule        function(last, now, cost, must, <state>) of the rule
--          last, now   microseconds: when the state was written, and now, which is never earlier
--          cost        units that are held, or charged
--          at_most     how long a generation lasts after its last hold, at least, and half of how
--                      long it lasts in all; 0 if the cost is not held, but charged
--          matters_for how long the state may need to recover from what a generation has left
--          named       in a settlement: the start of the generation that holds
--          taken       in a settlement: how many units it frees there
--          earlier_start, earlier_end, earlier_held, later_start, later_end, later_held
--                      of each generation, when it began, when it ends, and the units that it holds
--          ...         the state of the rule
-- Returns  whether the cost fits; if so, when the state is as good as none, the generations, and
--          the state of the rule

-- Spends what generations hold that have ended, in the order of their ends: the time of the state
-- then, what is still held, and the state.
local function held_spent(rule, last, now, e_end, e_held, l_end, l_held, ...)
  local earlier = e_held > 0 and e_end <= now and e_end or 2 ^ 54
  local later = l_held > 0 and l_end <= now and l_end or 2 ^ 54
  if earlier == 2 ^ 54 and later == 2 ^ 54 then return last, e_held, l_held, ... end
  local units, at = e_held, math.max(last, math.min(earlier, later))
  if later < earlier then
    units, l_held = l_held, 0
  else
    e_held = 0
  end
  return held_spent(rule, at, now, e_end, e_held, l_end, l_held,
    select(3, rule(last, at, units, true, ...)))
end

local function held_state(matters_for, e_start, e_end, e_held, l_start, l_end, l_held, _, ends, ...)
  if e_held > 0 then ends = math.max(ends, e_end) end
  if l_held > 0 then ends = math.max(ends, l_end) end
  if e_held + l_held > 0 then ends = ends + matters_for end
  return true, ends, e_start, e_end, e_held, l_start, l_end, l_held, ...
end

local function held_after(rule, now, cost, at_most, matters_for, named, taken,
  e_start, e_end, l_start, l_end, last, e_held, l_held, ...)
  if op == SETTLE and at_most > 0 then
    if named > 0 and named == e_start and e_held > 0 then
      e_held = math.max(e_held - taken, 0)
    elseif named > 0 and named == l_start and l_held > 0 then
      l_held = math.max(l_held - taken, 0)
    else
      -- The hold is gone: only what was spent beyond it is charged.
      cost = math.max(cost - taken, 0)
    end
  elseif op <= LOOK and cost > 0 then
    if not rule(last, now, cost + e_held + l_held, false, ...) then return false end
    if at_most > 0 then
      -- What nobody holds is as good as gone.
      if e_held + l_held == 0 then l_start, l_end = 0, 0 end
      local at = math.max(now, l_start)
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
  end
  return held_state(matters_for, e_start, e_end, e_held, l_start, l_end, l_held,
    rule(last, now, cost, true, ...))
end

local function held(rule, last, now, cost, at_most, matters_for, named, taken,
  e_start, e_end, e_held, l_start, l_end, l_held, ...)
  return held_after(rule, now, cost, at_most, matters_for, named, taken, e_start, e_end,
    l_start, l_end, held_spent(rule, last, now, e_end, e_held, l_end, l_held, ...))
end
