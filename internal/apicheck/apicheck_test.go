package apicheck_test

import (
	"testing"

	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// Each route of the handler is described, and each request and each answer is as
// the description says: nothing that isn't described comes, and whatever is
// refused is a problem.
func TestEveryRouteIsAsItIsDescribed(t *testing.T) {
	c := begin(t)
	var begun struct{ Session string }
	var pending struct{ Pauses []tool.Pause }
	var call runner.CallDetails
	var made struct {
		Calls   []runner.CallDetails
		History []struct{ Parts []struct{ Type, Call string } }
	}

	// A session with an approval in it, and then a file.
	c.json("POST", "/sessions", `{"text":"report","id":"k","agent":"ops"}`, 201, &begun)
	at := "/sessions/" + begun.Session
	c.stream("GET", at+"/events?stay=false&from=0", "", 200)
	c.json("GET", "/pauses?limit=5&reason=approval&tool=report", "", 200, &pending)
	p := pending.Pauses[0]
	c.json("GET", at+"/pauses", "", 200, nil)
	c.json("GET", at+"/pauses/"+p.ID, "", 200, nil)
	c.json("GET", at, "", 200, &made)
	c.json("POST", at+"/messages", `{"text":"Wait.","id":"m2"}`, 202, nil)
	c.json("GET", at+"/messages/m2", "", 200, nil)
	c.json("POST", at+"/pauses/"+p.ID+"/answer", `{"approved":true,"reason":"fine","id":"d"}`, 200,
		nil)
	c.stream("GET", at+"/events?stay=false&after=0", "", 200)
	c.json("GET", at+"/calls/"+p.Call, "", 200, &call)
	file := call.Artifacts[0].URL
	c.do("GET", file, "", "", 200)
	c.do("GET", file, "", "", 206, "Range", "bytes=1-2")
	etag := c.do("GET", file, "", "", 200).Header.Get("ETag")
	c.do("GET", file, "", "", 304, "If-None-Match", etag)
	c.do("GET", file, "", "", 416, "Range", "bytes=99-")
	c.json("GET", at+"/pauses/"+p.ID, "", 200, nil)
	c.json("GET", "/sessions?limit=1&agent=ops", "", 200, nil)
	c.json("GET", at, "", 200, nil)

	// Runs that stream, and what ends them.
	c.stream("POST", "/sessions", `{"text":"Hi."}`, 200)
	c.stream("POST", at+"/messages", `{"text":"Hi.","while":"supersede"}`, 200)
	c.stream("POST", at+"/continue", "", 200)
	c.json("POST", at+"/continue", "", 202, nil)
	c.stream("GET", at+"/events?stay=false", "", 200)
	c.json("POST", "/sessions", `{"text":"report"}`, 201, &begun)
	other := "/sessions/" + begun.Session
	c.stream("GET", other+"/events?stay=false", "", 200)
	c.json("GET", other+"/pauses", "", 200, &pending)
	p = pending.Pauses[0]
	c.stream("POST", other+"/pauses/"+p.ID+"/answer", `{"approved":true,"arguments":{}}`, 200)
	c.stream("GET", other+"/events?stay=false", "", 200) // if the worker was faster
	c.json("POST", other+"/calls/"+p.Call+"/cancel", `{"reason":"late"}`, 410, nil)
	c.json("POST", "/sessions", `{"text":"report"}`, 201, &begun)
	other = "/sessions/" + begun.Session
	c.stream("GET", other+"/events?stay=false", "", 200)
	c.json("GET", other+"/pauses", "", 200, &pending)
	c.json("POST", other+"/calls/"+pending.Pauses[0].Call+"/cancel", `{"reason":"no"}`, 200, nil)
	c.json("POST", other+"/cancel", `{"reason":"no"}`, 200, nil)

	c.stream("POST", "/agui", `{"threadId":"t","runId":"r","messages":[`+
		`{"id":"u","role":"user","content":"Hi."}]}`, 200)

	// Files with a message, and what is refused.
	media, body := upload(t)
	c.do("POST", at+"/messages", media, body, 202)
	c.do("POST", "/sessions", media, body, 201)
	c.json("GET", at+"/messages/none", "", 404, nil)
	c.json("GET", "/sessions/none", "", 404, nil)
	c.json("GET", at+"/calls/none", "", 404, nil)
	c.json("DELETE", at, "", 204, nil)
	for _, path := range []string{"/health", "/ready", "/openapi.json"} {
		c.json("GET", path, "", 200, nil)
	}
	for _, r := range c.routes {
		for status, seen := range r.statuses {
			if !seen && status != "default" {
				t.Errorf("no %s of %s was seen", status, r.name)
			}
		}
	}
}
