-- Like post.lua, with 10 ms between a response and the next post on each connection.
local here = debug.getinfo(1, "S").source:match("@(.*/)")
dofile(here .. "post.lua")

function delay()
    return 10
end
