-- Like unread_count.lua, with 10 ms between a response and the next request on each connection.
local here = debug.getinfo(1, "S").source:match("@(.*/)")
dofile(here .. "unread_count.lua")

function delay()
    return 10
end
