-- Requests that use 10 ms of processor time each, see bench/modules.sh.
local here = debug.getinfo(1, "S").source:match("@(.*/)")
dofile(here .. "common.lua")

function init()
    wrk.headers["Authorization"] = sessions()[1]
    wrk.path = "/api/busy/burn?ms=10"
end
