package httpapi_test

import (
	"bytes"
	"errors"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/httpapi"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/webhook"
)

// A session is begun, spoken to, listed, shown, cancelled and deleted.
func TestASessionOverHTTP(t *testing.T) {
	s := newSite(t, siteOptions{config: httpapi.Config{Path: "/api"}})
	var b struct {
		Session string
		Message runner.Sent
	}
	r := s.post("/api/sessions", `{"text":"Hi.","agent":"ops"}`)
	r.ok(t, http.StatusCreated, &b)
	at := "/api/sessions/" + b.Session
	if r.header.Get("Location") != at || !b.Message.Taken {
		t.Errorf("it has begun as %s, at %q", r.text, r.header.Get("Location"))
	}
	st := s.stream(http.MethodGet, at+"/events?stay=false", "")
	st.until("end")
	st.close()

	var sent, again runner.Sent
	s.post(at+"/messages", `{"text":"And now?","id":"m2"}`).ok(t, http.StatusAccepted, &sent)
	s.post(at+"/messages", `{"text":"And now?","id":"m2"}`).ok(t, http.StatusAccepted, &again)
	if sent.ID != "m2" || again.ID != "m2" {
		t.Errorf("it is sent as %+v, then %+v", sent, again)
	}
	s.post(at+"/messages", `{"text":"Else.","id":"m2"}`).is(t, 409, "message_conflict")
	s.get(at+"/messages/m2").ok(t, http.StatusOK, &sent)
	s.get(at+"/messages/m3").is(t, 404, "unknown_message")
	st = s.stream(http.MethodGet, at+"/events?stay=false", "")
	st.until("end")
	st.close()

	var shown runner.Transcript
	s.get(at).ok(t, http.StatusOK, &shown)
	if len(shown.History) != 4 || shown.History[2].Text() != "And now?" ||
		shown.Finish != event.FinishStop {
		t.Errorf("it is shown as %+v", shown)
	}
	var ended runner.Session
	s.post(at+"/cancel", `{"reason":"enough"}`).ok(t, http.StatusOK, &ended)
	s.do(s.request(http.MethodDelete, at, "")).ok(t, http.StatusNoContent, nil)
	s.get(at).is(t, 404, "unknown_session")
	s.do(s.request(http.MethodDelete, at, "")).is(t, 404, "unknown_session")
}

// What makes no sense is an error of construction.
func TestNewRefuses(t *testing.T) {
	s := newSite(t, siteOptions{idle: true})
	for name, c := range map[string]httpapi.Config{
		"no user":           {},
		"others' sessions":  {User: signedIn, Others: true}, // and no Authorizer
		"a relative path":   {User: signedIn, Path: "api/"},
		"a path with space": {User: signedIn, Path: "/a b/"},
		"a pattern":         {User: signedIn, Path: "/{x}/"},
		"an escape":         {User: signedIn, Path: "/a%2fb/"},
		"an unclean path":   {User: signedIn, Path: "/a/../b/"},
		"a negative limit":  {User: signedIn, Limits: httpapi.Limits{Body: -1}},
		"a negative time":   {User: signedIn, Streams: httpapi.Streams{Write: -1}},
		"no network":        {User: signedIn, Limits: httpapi.Limits{Proxies: make([]netip.Prefix, 1)}},
		"a rate of nothing": {User: signedIn, Limits: httpapi.Limits{User: webhook.Rate{Burst: 1}}},
	} {
		if _, err := httpapi.New(s.rn, c); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if _, err := httpapi.New(nil, httpapi.Config{User: signedIn}); err == nil {
		t.Error("no runner is taken")
	}
	for _, path := range []string{"/", "/api", "/a/b/", "/a.b~c/"} {
		if _, err := httpapi.New(s.rn, httpapi.Config{User: signedIn, Path: path}); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A request that begins a session, and is sent again, begins no second one.
func TestBeginningIsSafeToRepeat(t *testing.T) {
	s := newSite(t, siteOptions{idle: true})
	var first, second, other struct{ Session string }
	s.post("/sessions", `{"text":"Hi.","id":"k"}`).ok(t, http.StatusCreated, &first)
	s.post("/sessions", `{"text":"Hi.","id":"k"}`).ok(t, http.StatusCreated, &second)
	s.post("/sessions", `{"text":"Ho.","id":"k"}`).is(t, 409, "message_conflict")
	r := s.request(http.MethodPost, "/sessions", `{"text":"Ho.","id":"k"}`)
	r.Header.Set("X-User", "eve")
	s.do(r).ok(t, http.StatusCreated, &other)
	if first != second || first == other {
		t.Errorf("the sessions are %v, %v, and another user's %v", first, second, other)
	}
}

// A list has the user's own sessions, page by page.
func TestListsOfSessions(t *testing.T) {
	s := newSite(t, siteOptions{idle: true})
	var want, got []string
	for range 5 {
		want = append(want, s.begin("Hi."))
	}
	r := s.request(http.MethodPost, "/sessions", `{"text":"Hi."}`)
	r.Header.Set("X-User", "eve")
	s.do(r).ok(t, http.StatusCreated, nil)
	slices.Sort(want)
	for after := ""; ; {
		var page struct {
			Sessions []runner.Session
			Next     string
		}
		s.get("/sessions?limit=2&after="+after).ok(t, http.StatusOK, &page)
		for _, one := range page.Sessions {
			got = append(got, one.ID)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("listed are %v, want %v", got, want)
	}
	for _, query := range []string{"limit=0", "limit=x", "limit=201", "limit=1&limit=2", "lmit=1",
		"user=eve", "all=true", "%zz"} {
		s.get("/sessions?"+query).is(t, 400, "bad_query")
	}
}

// A session that can't be read, anyone's, ends no list before its end.
func TestListsGoOnPastDamage(t *testing.T) {
	s := newSite(t, siteOptions{idle: true})
	var ids []string
	for range 4 {
		id, _ := s.waits("pay")
		ids = append(ids, id)
	}
	slices.Sort(ids)
	_, err := s.kv.Apply(t.Context(), kvstore.Batch{Puts: []kvstore.Put{
		{Key: kvstore.Key("h", ids[1]), Value: []byte("{")}}})
	must(t, err)
	var page struct {
		Sessions []runner.Session
		Next     string
	}
	s.get("/sessions?limit=2").ok(t, http.StatusOK, &page)
	if len(page.Sessions) != 2 || page.Next != ids[2] {
		t.Errorf("the first page is %+v", page)
	}
	var list struct {
		Pauses []tool.Pause
		More   bool
	}
	s.get("/pauses?limit=2").ok(t, http.StatusOK, &list)
	if len(list.Pauses) != 2 || !list.More {
		t.Errorf("of what waits the list has %+v", list)
	}
	if !strings.Contains(s.logs.String(), "could not be listed") {
		t.Error("the log doesn't tell of it")
	}
}

// What waits is listed, shown and answered; the same answer again is a
// duplicate, another one a conflict.
func TestPausesOverHTTP(t *testing.T) {
	s := newSite(t, siteOptions{})
	id, p := s.waits("pay")
	at := "/sessions/" + id + "/pauses"
	for _, path := range []string{"/pauses", at, at + "?reason=approval", "/pauses?tool=pay&limit=1"} {
		var list struct{ Pauses []tool.Pause }
		s.get(path).ok(t, http.StatusOK, &list)
		if len(list.Pauses) != 1 || list.Pauses[0].ID != p.ID {
			t.Errorf("%s: %+v", path, list)
		}
	}
	var shown tool.Pause
	s.get(at+"/"+p.ID).ok(t, http.StatusOK, &shown)
	if shown.Await.Reason != tool.ReasonApproval || string(shown.Arguments) != `{"cents":500}` {
		t.Errorf("it is shown as %+v", shown)
	}
	for _, body := range []string{`{}`, `{"approved":true,"output":1}`, `{"reason":"x"}`,
		`{"approved":false,"arguments":{}}`, `{"output":1,"reason":"x"}`} {
		s.post(at+"/"+p.ID+"/answer", body).is(t, 422, "invalid")
	}
	r := s.post(at+"/"+p.ID+"/answer", `{"aproved":true}`)
	if r.is(t, 422, "invalid"); !strings.Contains(r.text, `"path":"/aproved"`) {
		t.Errorf("a misspelt member is refused with %s", r.text)
	}
	var first, again struct {
		By, Decided string
		Duplicate   bool
	}
	s.post(at+"/"+p.ID+"/answer", `{"approved":true,"reason":"fine","id":"d1"}`).ok(t, 200, &first)
	s.post(at+"/"+p.ID+"/answer", `{"approved":true,"reason":"fine","id":"d1"}`).ok(t, 200, &again)
	if first.By != "ada" || first.Decided != "approved" || first.Duplicate || !again.Duplicate {
		t.Errorf("the answers are taken as %+v, then %+v", first, again)
	}
	s.post(at+"/"+p.ID+"/answer", `{"approved":false}`).is(t, 409, "conflict")
	s.get(at+"/x.1").is(t, 404, "unknown_pause")
	s.post(at+"/x.1/answer", `{"approved":true}`).is(t, 404, "unknown_pause")
}

// A question is answered, and the run goes on, on the same request.
func TestAnAnswerThatStreams(t *testing.T) {
	s := newSite(t, siteOptions{idle: true})
	id, p := s.waits("ask")
	path := "/sessions/" + id + "/pauses/" + p.ID + "/answer"
	s.post(path, `{"output":7}`).is(t, 422, "invalid")
	st := s.stream(http.MethodPost, path, `{"output":"blue"}`)
	defer st.close()
	types := st.rest()
	if !slices.Contains(types, "result") || types[len(types)-1] != "end" {
		t.Errorf("the stream has %v", types)
	}
}

// What a machine ends, the user can't: neither while the call waits, nor before.
func TestAUserIsNoMachine(t *testing.T) {
	s := newSite(t, siteOptions{})
	id, p := s.waits("build")
	at := "/sessions/" + id + "/pauses/"
	for _, body := range []string{`{"output":"built"}`, `{"approved":true}`, `{"again":true}`} {
		s.post(at+p.ID+"/answer", body).is(t, 403, "not_allowed")
	}
	var list struct{ Pauses []tool.Pause }
	if s.get("/pauses").ok(t, 200, &list); len(list.Pauses) != 0 {
		t.Errorf("for people there waits %+v", list)
	}
	st := s.stream(http.MethodPost, "/sessions", `{"text":"slow"}`)
	defer st.close()
	var c struct{ Call struct{ ID string } }
	mustJSON(t, st.until("call").data, &c)
	slow := st.session()
	s.post("/sessions/"+slow+"/pauses/"+c.Call.ID+".1/answer", `{"output":"slept"}`).
		is(t, 404, "unknown_pause")
	// They may call it off.
	var ended struct{ Kind, By string }
	s.post("/sessions/"+id+"/calls/"+p.Call+"/cancel", `{"reason":"no"}`).ok(t, 200, &ended)
	if ended.Kind != "cancel" || ended.By != "ada" {
		t.Errorf("it is cancelled as %+v", ended)
	}
	var call runner.CallDetails
	s.get("/sessions/"+id+"/calls/"+p.Call).ok(t, 200, &call)
	if call.Settled != event.Cancelled {
		t.Errorf("the call is %+v", call)
	}
}

// Files come with a message, and stand in it as media.
func TestUploads(t *testing.T) {
	s := newSite(t, siteOptions{idle: true, config: httpapi.Config{
		Limits: httpapi.Limits{Upload: 4 << 10}}})
	id := s.begin("Hi.")
	upload := func(media, field string, size int, fields ...string) response {
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		for i := 0; i < len(fields); i += 2 {
			must(t, w.WriteField(fields[i], fields[i+1]))
		}
		part, err := w.CreatePart(textproto.MIMEHeader{"Content-Type": {media},
			"Content-Disposition": {fmt.Sprintf(`form-data; name=%q; filename="a.png"`, field)}})
		must(t, err)
		_, err = part.Write(bytes.Repeat([]byte("x"), size))
		must(t, errors.Join(err, w.Close()))
		r := s.request(http.MethodPost, "/sessions/"+id+"/messages", b.String())
		r.Header.Set("Content-Type", w.FormDataContentType())
		return s.do(r)
	}
	upload("image/png", "file", 100, "text", "Look.", "id", "m2").ok(t, http.StatusAccepted, nil)
	upload("text/html", "file", 100, "text", "Look.").is(t, 415, "unsupported")
	upload("", "file", 100, "text", "Look.").is(t, 415, "unsupported")
	upload("image/png", "photo", 100).is(t, 422, "invalid")
	upload("image/png", "file", 0).is(t, 422, "invalid")
	upload("image/png", "file", 100, "txt", "Look.").is(t, 422, "invalid")
	upload("image/png", "file", 100, "text", "a", "text", "b").is(t, 422, "invalid")
	upload("image/png", "file", 8<<10, "text", "Look.").is(t, 413, "too_large")
	var shown runner.Transcript
	s.get("/sessions/"+id).ok(t, 200, &shown)
	if len(shown.Queue) != 1 {
		t.Fatalf("there wait %+v", shown.Queue)
	}
	media, ok := shown.Queue[0].Message.Parts[1].(llm.Media)
	if !ok || media.MediaType != "image/png" || len(media.Data) != 100 || media.Name != "a.png" {
		t.Errorf("the file is %+v", media)
	}
}
