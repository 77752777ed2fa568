package webhook_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/webhook"
)

// undecided checks that nothing was decided, and that the store is as it was.
func (s *linkSite) undecided(before string) {
	s.t.Helper()
	if after := dump(s.t, s.kv); after != before {
		s.t.Error("the store has changed")
	}
}

// Scanners, previews and browsers that look ahead fetch a link as they like, and
// try other methods: nothing changes, in the store or for the person.
func TestOpeningALinkChangesNothing(t *testing.T) {
	s := newLinkSite(t, paying(order7), webhook.LinksConfig{})
	link := s.link(webhook.Link{Pause: s.waits()})
	before := dump(t, s.kv)
	var wg sync.WaitGroup
	for i := range 20 {
		b := s.browser([]string{"", "grace"}[i%2])
		b.header.Set("User-Agent", "scanner")
		if i%3 == 0 {
			b.header.Set("Sec-Purpose", "prefetch;prerender")
		}
		wg.Go(func() {
			for _, method := range []string{"GET", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH",
				"TRACE", "PROPFIND"} {
				v := b.do(method, link+"?act=approve&reason=x", nil)
				switch {
				case method == http.MethodGet || method == http.MethodHead:
					v.is(http.StatusOK)
				default:
					v.is(http.StatusMethodNotAllowed)
					if v.header.Get("Allow") != "GET, HEAD, POST" {
						t.Errorf("%s is answered with Allow: %s", method, v.header.Get("Allow"))
					}
				}
				if method == http.MethodHead && v.text != "" {
					t.Errorf("HEAD is answered with %s", v.text)
				}
			}
		})
	}
	wg.Wait()
	s.undecided(before)
	s.browser("grace").decide(link, "approve").is(http.StatusOK, "by you")
}

// A page of another site can make a browser post, and can't make it decide.
func TestPagesOfOtherSitesDecideNothing(t *testing.T) {
	s := newLinkSite(t, paying(order7), webhook.LinksConfig{})
	p := s.waits()
	link, second := s.link(webhook.Link{Pause: p}), s.link(webhook.Link{Pause: p, Holder: "x"})
	grace, mallory := s.browser("grace"), s.browser("mallory")
	page, hers := grace.get(link), mallory.get(link)
	before := dump(t, s.kv)
	post := func(b *browser, header [2]string, ticket string) view {
		t.Helper()
		other := *b
		other.header = http.Header{}
		if header[0] != "" {
			other.header.Set(header[0], header[1])
		}
		form := url.Values{"act": {"approve"}}
		if ticket != "" {
			form.Set("ticket", ticket)
		}
		return other.do(http.MethodPost, link, strings.NewReader(form.Encode()))
	}
	good := page.ticket()
	for name, v := range map[string]view{
		"no ticket":              post(grace, [2]string{}, ""),
		"another user's ticket":  post(grace, [2]string{}, hers.ticket()),
		"the user before":        post(s.sameBrowser(grace, "ivan"), [2]string{}, good),
		"another link's ticket":  post(grace, [2]string{}, grace.get(second).ticket()),
		"another browser":        post(s.browser("grace"), [2]string{}, good),
		"a ticket that is cut":   post(grace, [2]string{}, good[:len(good)-1]),
		"another site":           post(grace, [2]string{"Sec-Fetch-Site", "cross-site"}, good),
		"a sibling host":         post(grace, [2]string{"Sec-Fetch-Site", "same-site"}, good),
		"another origin":         post(grace, [2]string{"Origin", "https://evil.example"}, good),
		"another port":           post(grace, [2]string{"Origin", "http://127.0.0.1:1"}, good),
		"an origin that is none": post(grace, [2]string{"Origin", "null"}, ""),
		"a cookie of mallory's": post(grace, [2]string{"Cookie",
			"login=grace; fermata-links=" + strings.Repeat("A", 43)}, hers.ticket()),
		"a cookie that is short": post(s.browser("grace"), [2]string{"Cookie",
			"login=grace; fermata-links=AAAA"}, good),
	} {
		v.is(http.StatusForbidden)
		if v.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: other sites may read the answer", name)
		}
	}
	post(s.browser(""), [2]string{}, good).is(http.StatusUnauthorized, "Please sign in")
	s.undecided(before)
	// What a browser of today sends from this very page, and one that knows no
	// Sec-Fetch-Site: pages without a referrer have the origin "null".
	post(grace, [2]string{"Sec-Fetch-Site", "same-origin"}, good).is(http.StatusSeeOther)
	post(grace, [2]string{"Origin", "null"}, good).is(http.StatusSeeOther)
	post(grace, [2]string{"Origin", s.web.URL}, good).is(http.StatusSeeOther)
}

// The cookie is sent to this host alone, over TLS where there is TLS, and to no
// script; a browser keeps one.
func TestTheCookieOfLinks(t *testing.T) {
	for scheme, name := range map[string]string{
		"http": "fermata-links", "https": "__Host-fermata-links",
	} {
		s := newLinkSite(t, paying(order7), webhook.LinksConfig{})
		link := s.link(webhook.Link{Pause: s.waits()})
		s.links = must2(t)(webhook.NewLinks(s.rn, webhook.LinksConfig{
			Base: scheme + "://agents.example/links", User: login}))
		grace := s.browser("grace")
		set := grace.get(link).header.Get("Set-Cookie")
		for _, want := range []string{name + "=", "Path=/", "HttpOnly", "SameSite=Lax"} {
			if !strings.Contains(set, want) {
				t.Errorf("%s: the cookie %q doesn't have %q", scheme, set, want)
			}
		}
		if secure := strings.Contains(set, "Secure"); secure != (scheme == "https") {
			t.Errorf("%s: the cookie is %q", scheme, set)
		}
		if strings.Contains(set, "Domain") || strings.Contains(set, "Expires") {
			t.Errorf("%s: the cookie is %q", scheme, set)
		}
		if again := grace.get(link).header.Get("Set-Cookie"); scheme == "http" && again != "" {
			t.Errorf("a browser that has the cookie is given %q", again)
		}
	}
}

// Tokens that are forged, spliced, of another kind, or for another content open
// no page; and a link is no key to a webhook, which knows no user.
func TestLinksThatAreNotLinks(t *testing.T) {
	s := newLinkSite(t, paying(order7), webhook.LinksConfig{})
	p := s.waits()
	link := s.link(webhook.Link{Pause: p})
	text := link[strings.LastIndexByte(link, '/')+1:]
	grace := s.browser("grace")
	page := grace.get(link)
	parts := strings.Split(text, ".")
	claims := func(change func(map[string]any)) string {
		raw, err := base64.RawURLEncoding.DecodeString(parts[1])
		must(t, err)
		var c map[string]any
		must(t, json.Unmarshal(raw, &c))
		change(c)
		raw, err = json.Marshal(c)
		must(t, err)
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	both := s.mint(p, "grace", tool.PermitApprove, tool.PermitDeny)
	before := dump(t, s.kv)
	for name, forged := range map[string]string{
		"another permit": parts[0] + "." +
			claims(func(c map[string]any) { c["o"] = []string{"link_answer"} }) + "." + parts[2],
		"a longer life": parts[0] + "." +
			claims(func(c map[string]any) { c["e"] = 99999999999 }) + "." + parts[2],
		"a signature of another": parts[0] + "." + parts[1] + "." + strings.Split(both, ".")[2],
		"no signature":           parts[0] + "." + parts[1] + ".",
		"the old form":           "f1." + parts[1] + "." + parts[2],
		"a webhook's token":      both,
		"a session's id":         chat,
		"nothing":                "",
		"another site's address": "%2f%2fevil.example",
	} {
		address := s.web.URL + "/links/" + forged
		grace.get(address).is(http.StatusNotFound, "This link isn't valid")
		v := grace.press(address, page, "approve")
		v.is(http.StatusNotFound)
		if v.header.Get("Location") != "" {
			t.Errorf("%s: it leads to %s", name, v.header.Get("Location"))
		}
	}
	for _, path := range []string{"/approve", "/deny", "", "/fail", "/cancel", "/progress"} {
		s.post(text+path, `{}`).is(t, http.StatusForbidden, "not_allowed")
	}
	s.undecided(before)

	// Where a store was put back to an earlier state, an id may stand for other
	// content. The signature of what was shown then is good.
	var shown string
	changed := s.signed("f2.", func() (c map[string]any) {
		raw, _ := base64.RawURLEncoding.DecodeString(parts[1])
		must(t, json.Unmarshal(raw, &c))
		shown, _ = c["w"].(string)
		c["w"] = "another content"
		return c
	}())
	if shown != runner.Shown(p) {
		t.Errorf("the link is for %q", shown)
	}
	address := s.web.URL + "/links/" + changed
	grace.get(address).is(http.StatusConflict, "Something else is asked now")
	form := url.Values{"act": {"approve"}, "ticket": {page.ticket()}}
	grace.do(http.MethodPost, address, strings.NewReader(form.Encode())).
		is(http.StatusConflict, "Nothing was decided")
	s.undecided(before)
}

// What stands in arguments, prompts and diffs is shown, and is no page's own.
func TestWhatAModelWritesIsNoHTML(t *testing.T) {
	const evil = `</pre><script>alert(1)</script><img src=x onerror=alert(1)>"'` + "\u202e"
	args, err := json.Marshal(payInput{Order: evil})
	must(t, err)
	o := paying(string(args))
	o.layers = interceptor.Chain{interceptor.Approval(&interceptor.ApprovalOptions{
		Tools:  []string{"pay"},
		Prompt: func(tool.Call) string { return "Pay? " + evil },
		Diff:   func(tool.Call) string { return "-1\n+" + evil },
	})}
	s := newLinkSite(t, o, webhook.LinksConfig{
		User:   func(*http.Request) (runner.Actor, error) { return "<script>grace", nil },
		SignIn: func(*http.Request) string { return "javascript:alert(1)" },
	})
	link := s.link(webhook.Link{Pause: s.waits()})
	grace := s.browser("")
	page := grace.get(link)
	page.is(http.StatusOK, "What would change", "-1\n+</pre>",
		`"order": "</pre><script>alert(1)</script><img src=x onerror=alert(1)>\"'\u202e"`)
	page.lacks("\u202e", "<script", "<img")
	// What is sent comes back as text, too.
	long := grace.press(link, page, "approve", "reason", strings.Repeat("<script>", 200))
	long.is(http.StatusUnprocessableEntity, "the reason has 1600 bytes")
	long.lacks("<script")
	grace.decide(link, "approve", "reason", evil).is(http.StatusOK, "by you")

	q := newLinkSite(t, asking("Who? "+evil), webhook.LinksConfig{
		SignIn: func(*http.Request) string { return "javascript:alert(1)" }})
	ask := q.link(webhook.Link{Pause: q.waits()})
	ada := q.browser("ada")
	bad := ada.press(ask, ada.get(ask), "answer", "f0", evil, "f3", evil, "f4", evil)
	bad.is(http.StatusUnprocessableEntity, `value="</pre><script>`)
	bad.lacks("<script", "<img")
	q.browser("").get(ask).lacks("javascript:alert")
}

// Bodies that are huge, compressed, or of another form are refused, and so is one
// whose sender isn't signed in, unread.
func TestBodiesOfLinks(t *testing.T) {
	s := newLinkSite(t, paying(order7), webhook.LinksConfig{MaxBody: 10_000})
	link := s.link(webhook.Link{Pause: s.waits()})
	grace := s.browser("grace")
	page := grace.get(link)
	form := url.Values{"act": {"approve"}, "ticket": {page.ticket()}}.Encode()
	before := dump(t, s.kv)
	send := func(b *browser, kind, coding string, body io.Reader) view {
		t.Helper()
		b.header = http.Header{"Content-Type": {kind}}
		if coding != "" {
			b.header.Set("Content-Encoding", coding)
		}
		return b.do(http.MethodPost, link, body)
	}
	const urlencoded = "application/x-www-form-urlencoded"
	send(grace, urlencoded, "", strings.NewReader(form+"&reason="+strings.Repeat("x", 10_000))).
		is(http.StatusRequestEntityTooLarge)
	endless := io.MultiReader(strings.NewReader(form), strings.NewReader(strings.Repeat("&a=b", 10_000)))
	send(grace, urlencoded, "", endless).is(http.StatusRequestEntityTooLarge)
	for _, kind := range []string{"text/plain", "application/json",
		"multipart/form-data; boundary=x"} {
		send(grace, kind, "", strings.NewReader(form)).is(http.StatusUnsupportedMediaType)
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, err := z.Write([]byte(form))
	must(t, errors.Join(err, z.Close()))
	send(grace, urlencoded, "gzip", &zipped).is(http.StatusUnsupportedMediaType)
	send(grace, urlencoded, "", strings.NewReader("act=%zz")).is(http.StatusBadRequest)
	send(s.browser(""), urlencoded, "", strings.NewReader(strings.Repeat("x", 20_000))).
		is(http.StatusUnauthorized)
	s.undecided(before)
	send(grace, urlencoded+"; charset=utf-8", "", strings.NewReader(form)).is(http.StatusSeeOther)
}

// A body that comes too slowly is given up, whether it is read or not.
func TestSlowBodiesOfLinks(t *testing.T) {
	s := newLinkSite(t, paying(order7), webhook.LinksConfig{ReadTimeout: 50 * time.Millisecond})
	link := s.link(webhook.Link{Pause: s.waits()})
	path := link[strings.LastIndex(link, "/links/"):]
	for cookie, want := range map[string]string{"login=grace": "408", "login=": "401"} {
		var d net.Dialer
		conn, err := d.DialContext(t.Context(), "tcp", s.web.Listener.Addr().String())
		must(t, err)
		_, err = io.WriteString(conn, "POST "+path+" HTTP/1.1\r\nHost: x\r\nCookie: "+cookie+
			"\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\nact=")
		must(t, err)
		got := firstLine(t, conn)
		must(t, conn.Close())
		if !strings.HasPrefix(got, "HTTP/1.1 "+want) {
			t.Errorf("%s: it is answered with %s", cookie, got)
		}
	}
}

// Who isn't signed in sees what is asked, and no names; by option nothing, not
// even whether the link is good.
func TestNobodyIsToldOnlyWhatTheyMayKnow(t *testing.T) {
	in := func(*http.Request) string { return "/login?to=7" }
	for _, first := range []bool{false, true} {
		s := newLinkSite(t, paying(order7), webhook.LinksConfig{SignInFirst: first, SignIn: in})
		link := s.link(webhook.Link{Pause: s.waits(), Holder: "heidi"})
		nobody := s.browser("")
		good, bad := nobody.get(link), nobody.get(s.web.URL+"/links/f2.x.y")
		for _, v := range []view{good, bad} {
			v.lacks("ada", "heidi", "<form", "ticket")
			if v.header.Get("Set-Cookie") != "" {
				t.Error("a cookie is set for who can't decide")
			}
		}
		if first {
			good.is(http.StatusUnauthorized, "Please sign in", `<a href="/login?to=7">`)
			if bad.text != good.text || bad.status != good.status {
				t.Errorf("whether a link is good is shown: %s", bad.body())
			}
			good.lacks("pay", "cents", chat)
			nobody.press(link, good, "approve").is(http.StatusUnauthorized)
		} else {
			good.is(http.StatusOK, "Run pay?", "Sign in to decide.", `<a href="/login?to=7">`)
		}
		s.browser("grace").get(link).is(http.StatusOK, "ada", "<form")
	}
}

// With AddresseeDecides the link's holder decides, and the page names no other
// user.
func TestTheAddresseeDecides(t *testing.T) {
	s := newLinkSite(t, paying(order7), webhook.LinksConfig{AddresseeDecides: true})
	p := s.waits()
	if _, err := s.links.URL(t.Context(), webhook.Link{Pause: p}, "mailer"); !errors.Is(err,
		runner.ErrInvalidGrant) {
		t.Errorf("a link for no addressee: %v", err)
	}
	hers := s.link(webhook.Link{Pause: p, Holder: "heidi"})
	his := s.link(webhook.Link{Pause: p, Holder: "ivan"})
	b := s.browser("grace") // a login counts for nothing here
	b.press(hers, b.get(his), "approve").is(http.StatusForbidden)
	b.decide(hers, "deny").is(http.StatusOK, "This was denied by you")
	other := s.browser("").get(his)
	other.is(http.StatusGone, "This was denied on ")
	other.lacks("heidi")
	if got := s.decisions(); len(got) != 1 || got[0] != "denied by heidi: " {
		t.Errorf("the decisions are %q", got)
	}
}

// The Authorizer is asked who may make a link, open it, and decide by it.
func TestTheAuthorizerIsAskedAboutLinks(t *testing.T) {
	o := paying(order7)
	o.runner.Authorizer = func(_ context.Context, op runner.Operation) error {
		switch op.Actor {
		case "mailer", "grace", "ada", "webhook":
			return nil
		case "ivan": // may look
			if op.Kind == runner.OpFind {
				return nil
			}
		}
		return errors.New("no")
	}
	s := newLinkSite(t, o, webhook.LinksConfig{})
	p := s.waits()
	if _, err := s.links.URL(t.Context(), webhook.Link{Pause: p}, "ivan"); !errors.Is(err,
		runner.ErrNotAllowed) {
		t.Errorf("ivan makes a link: %v", err)
	}
	link := s.link(webhook.Link{Pause: p})
	s.browser("mallory").get(link).is(http.StatusForbidden, "You may not do this")
	ivan := s.browser("ivan")
	ivan.get(link).is(http.StatusOK)
	ivan.decide(link, "approve").is(http.StatusForbidden, "You may not do this")
	s.browser("grace").decide(link, "approve").is(http.StatusOK, "by you")
}

// A store or a login that fails is a page that asks to try again; the log has the
// failure, and no link.
func TestLinksWhereSomethingFails(t *testing.T) {
	var faults *faultkv.Injector
	o := paying(order7)
	o.wrap = func(kv kvstore.Store) kvstore.Store {
		faults = faultkv.New(kv)
		return faults.Store
	}
	s := newLinkSite(t, o, webhook.LinksConfig{
		User: func(r *http.Request) (runner.Actor, error) {
			if r.URL.Query().Has("down") {
				return "", errors.New("no answer for " + r.URL.String())
			}
			return login(r)
		}})
	link := s.link(webhook.Link{Pause: s.waits()})
	grace := s.browser("grace")
	page := grace.get(link)
	down := grace.get(link + "?down")
	down.is(http.StatusServiceUnavailable, "This didn't work just now")
	faults.Add(faultkv.FailAt(faults.Applies() + 1))
	failed := grace.press(link, page, "approve")
	failed.is(http.StatusServiceUnavailable, "Please try again")
	for _, v := range []view{down, failed} {
		if v.header.Get("Retry-After") == "" {
			t.Error("a page doesn't say when to try again")
		}
	}
	if logs := s.logs.String(); strings.Count(logs, "a link could not be served") != 2 ||
		!strings.Contains(logs, "no answer for /links/(link)?down") {
		t.Errorf("the log has %s", logs)
	}
	grace.decide(link, "approve").is(http.StatusOK, "by you")
}

// The handler may be mounted anywhere, and leads nowhere else.
func TestLinksLeadNowhereElse(t *testing.T) {
	s := newLinkSite(t, siteOptions{tools: []tool.Tool{pay},
		layers: paying(order7).layers,
		model:  fakellm.New(fakellm.Calls("pay", order7), fakellm.Says("Done."))},
		webhook.LinksConfig{})
	link := s.link(webhook.Link{Pause: s.waits()})
	text := link[strings.LastIndexByte(link, '/')+1:]
	grace := s.browser("grace")
	page := grace.get(link)
	for _, path := range []string{"//evil.example/links/", "/a/../links/", "/x//", "/\\evil/"} {
		r := httptest.NewRequest(http.MethodPost, "http://x"+"/links/"+text, strings.NewReader(
			url.Values{"act": {"approve"}, "ticket": {page.ticket()}}.Encode()))
		r.URL.Path = path + text
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		at, err := url.Parse(s.web.URL)
		must(t, err)
		for _, c := range grace.client.Jar.Cookies(at) {
			r.AddCookie(c)
		}
		w := httptest.NewRecorder()
		s.links.ServeHTTP(w, r)
		if got := w.Header().Get("Location"); w.Code != http.StatusSeeOther || got != text {
			t.Errorf("%s: %d, to %q", path, w.Code, got)
		}
	}
}

// Pages over a limit say when to come again.
func TestLinksThatAreOpenedTooOften(t *testing.T) {
	rate := webhook.Rate{PerSecond: 0.001, Burst: 2}
	for of, limits := range map[string]webhook.Limits{
		"address": {Address: rate}, "token": {Token: rate}, "user": {Sender: rate},
	} {
		s := newLinkSite(t, paying(order7), webhook.LinksConfig{Limits: limits})
		link := s.link(webhook.Link{Pause: s.waits()})
		s.browser("grace").get(link).is(http.StatusOK)
		s.browser("grace").get(link).is(http.StatusOK)
		v := s.browser("grace").get(link)
		v.is(http.StatusTooManyRequests, "too often")
		if v.header.Get("Retry-After") == "" {
			t.Errorf("%s: it doesn't say when to come again", of)
		}
		want := map[string]int{"address": 429, "token": 429, "user": 200}[of]
		s.browser("ivan").get(link).is(want)
	}
}
