# The first screen: awk -f bars.awk bars.tsv tables. Of the rows that a bar is for, the worst one is
# told, and how many miss the bar, and why it is missed.
FNR == NR {
    if ($0 !~ /^#/ && split($0, fields, "\t") >= 5) {
        what[++bars] = fields[1]
        sign[bars] = substr(fields[2], 1, index(fields[2], " ") - 1)
        bar[bars] = substr(fields[2], index(fields[2], " ") + 1)
        table[bars] = fields[3]
        none = split(fields[4], rows, " ! ")
        row[bars] = rows[1]
        but[bars] = none > 1 ? rows[2] : "^$"
        column[bars] = fields[5]
        why[bars] = fields[6] == "" ? "" : ". Given up: " fields[6]
    }
    next
}
/^## / { section = substr($0, 4); delete head; next }
/^\|---/ { columns = split(before, cells, "|"); for (at = 1; at <= columns; at++) head[trim(cells[at])] = at }
{
    before = $0
    for (at = 1; at <= bars; at++)
        if (section == table[at] && $0 ~ row[at] && $0 !~ but[at]) measure(at)
}
END {
    print "\n## The bars\n"
    print "What tollgate is held to, and what this run measured in the worst row that the bar is for; of a"
    print "bar that is missed, by how many rows, which is the worst, and why the bar is given up. One bar"
    print "more is held by a test, `tests/wire/tests/allocations.rs`: an admitted request of a known key"
    print "allocates nothing. All rows in which anybody is faster or smaller than tollgate, bar or not, are"
    print "in [one section](#where-tollgate-loses-and-why).\n"
    print "| what | bar | measured | | table |\n|---|---|---|---|---|"
    for (at = 1; at <= bars; at++) {
        told = at in worst ? worst[at] : "not measured"
        if (!(at in worst)) verdict = ""
        else if (fits(worst[at], at)) verdict = "met"
        else verdict = "**missed** in " missed[at] " of " measured[at] " rows; the worst: " worst_name[at] why[at]
        print "| " what[at] " | " sign[at] " " bar[at] " | " told " | " verdict " | [table](#"  anchor(table[at]) ") |"
    }
}

function measure(at,   cells, number) {
    if (column[at] ~ /^[≤≥]+[0-9]$/) number = beside(substr(column[at], length(column[at])), sign[at])
    else if (column[at] in head) {
        split($0, cells, "|")
        number = trim(cells[head[column[at]]])
    }
    gsub(/\*/, "", number)
    number = substr(number, 1, match(number " ", / /) - 1)
    if (number !~ /^[0-9.]+$/) return
    measured[at]++
    if (!fits(number, at)) missed[at]++
    if (!(at in worst) || (sign[at] == "≤" ? number + 0 > worst[at] + 0 : number + 0 < worst[at] + 0)) {
        worst[at] = number
        worst_name[at] = name($0)
    }
}

# The number that has the given one of the bars of this line beside it, after a space, or after a
# mark if it misses it.
function beside(wanted, sign,   parts, count, at, words, length_) {
    count = split($0, parts, "[ !]\\(" sign)
    if (wanted + 1 > count) return ""
    length_ = split(parts[wanted], words, " ")
    return words[length_]
}

function fits(number, at) {
    return sign[at] == "≤" ? number + 0 <= bar[at] + 0 : number + 0 >= bar[at] + 0
}

# What a row is called: the cells that are no numbers, or what stands before the first colon.
function name(line,   cells, count, at, told) {
    count = split(line, cells, "|")
    for (at = 2; at < count; at++)
        if (trim(cells[at]) !~ /^[*0-9.]+( \(|$)/) told = told (told == "" ? "" : ", ") trim(cells[at])
    line = trim(line)
    if (told == "") told = substr(line, 1, match(line ":", /:|  /) - 1)
    return trim(told)
}

function trim(text) {
    gsub(/^ +| +$/, "", text)
    return text
}

# The link to a section, as GitHub makes it.
function anchor(title) {
    title = tolower(title)
    gsub(/[^a-z0-9 -]/, "", title)
    gsub(/ /, "-", title)
    return title
}
