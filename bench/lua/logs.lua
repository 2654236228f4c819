-- Asks for 100 rows of the log of a random bulk upload in the file JOBS, starting at a random row:
-- for any rows, for stored rows, or for failed rows.
local here = debug.getinfo(1, "S").source:match("@(.*/)")
dofile(here .. "common.lua")

local jobs, rows = {}, tonumber(os.getenv("ROWS"))
local which = {"", "&status=success", "&status=failed"}

function init()
    wrk.headers["Authorization"] = sessions()[1]
    math.randomseed(seed)
    for line in io.lines(os.getenv("JOBS")) do
        jobs[#jobs + 1] = line
    end
end

function request()
    return wrk.format("GET", "/api/bulk-upload/bulk-upload-log/" .. jobs[math.random(#jobs)] ..
        "?after=" .. math.random(0, rows - 1) .. which[math.random(#which)])
end
