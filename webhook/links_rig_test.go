package webhook_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/webhook"
)

// linkSite is a site with pages behind links, beside its webhooks.
type linkSite struct {
	*site
	links *webhook.Links
	web   *httptest.Server
}

type payInput struct {
	Order string `json:"order"`
	Cents int    `json:"cents"`
}

// pay is a tool behind an approval.
var pay = tool.Must(tool.Func(tool.Spec{Name: "pay", Description: "Pay."},
	func(context.Context, payInput) (tool.Result[string], error) { return tool.Done("paid"), nil }))

type travelInput struct {
	Question string `json:"question"`
}

type travelAnswer struct {
	Seats int      `json:"seats" jsonschema:"description=How many travel,minimum=1"`
	Class string   `json:"class" jsonschema:"enum=first,enum=second"`
	Pets  bool     `json:"pets"`
	Note  string   `json:"note,omitempty"`
	Stops []string `json:"stops,omitempty"`
}

// travel asks a person.
var travel = tool.Must(tool.Func(
	tool.Spec{Name: "travel", Description: "Ask.", Effect: tool.ReadOnly, MayPause: true},
	func(_ context.Context, in travelInput) (tool.Result[travelAnswer], error) {
		return tool.NeedInput[travelAnswer](in.Question), nil
	}))

// paying has the model pay behind an approval.
func paying(args string) siteOptions {
	return siteOptions{
		tools:  []tool.Tool{pay},
		layers: interceptor.Chain{interceptor.Approval(&interceptor.ApprovalOptions{Tools: []string{"pay"}})},
		model: fakellm.New(fakellm.Calls("pay", args), fakellm.Says("Done."),
			fakellm.Says("Never mind.")),
	}
}

// asking has the model ask a person.
func asking(question string) siteOptions {
	return siteOptions{tools: []tool.Tool{travel}, model: fakellm.New(
		fakellm.Calls("travel", `{"question":`+quoted(question)+`}`), fakellm.Says("Booked."))}
}

const order7 = `{"order":"7","cents":9007199254740993}`

// login believes the cookie of a test's browser.
func login(r *http.Request) (runner.Actor, error) {
	c, err := r.Cookie("login")
	if err != nil {
		return "", webhook.ErrNoUser
	}
	return runner.Actor(c.Value), nil
}

func newLinkSite(t *testing.T, o siteOptions, c webhook.LinksConfig) *linkSite {
	t.Helper()
	s := &linkSite{site: newSite(t, o)}
	s.web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.links.ServeHTTP(w, r)
	}))
	t.Cleanup(s.web.Close)
	c.Base = s.web.URL + "/links"
	if c.User == nil && !c.AddresseeDecides {
		c.User = login
	}
	if c.Logger == nil {
		c.Logger = s.o.webhook.Logger
	}
	s.links = must2(t)(webhook.NewLinks(s.rn, c))
	return s
}

func must2(t *testing.T) func(*webhook.Links, error) *webhook.Links {
	return func(l *webhook.Links, err error) *webhook.Links {
		t.Helper()
		must(t, err)
		return l
	}
}

// waits runs until a call waits, and returns its pause.
func (s *linkSite) waits() tool.Pause {
	s.t.Helper()
	end := s.run()
	if len(end.Pending) != 1 {
		s.t.Fatalf("the run ended as %s, with %d pauses", end.Finish, len(end.Pending))
	}
	return end.Pending[0]
}

// link makes a link, which no log may have.
func (s *linkSite) link(l webhook.Link) string {
	s.t.Helper()
	address, err := s.links.URL(s.t.Context(), l, "mailer")
	must(s.t, err)
	s.tokens = append(s.tokens, address[strings.LastIndexByte(address, '/')+1:])
	return address
}

// browser is a person's: it keeps cookies, and stays where it is sent.
type browser struct {
	t      *testing.T
	client *http.Client
	header http.Header // of each request
}

// browser returns that of a person who is signed in; for "", of one who
// isn't.
func (s *linkSite) browser(user string) *browser {
	s.t.Helper()
	jar, err := cookiejar.New(nil)
	must(s.t, err)
	if user != "" {
		at, err := url.Parse(s.web.URL)
		must(s.t, err)
		jar.SetCookies(at, []*http.Cookie{{Name: "login", Value: user}})
	}
	client := *s.web.Client()
	client.Jar = jar
	client.CheckRedirect = func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}
	return &browser{t: s.t, client: &client, header: http.Header{}}
}

// sameBrowser returns a browser after another person has signed in.
func (s *linkSite) sameBrowser(b *browser, user string) *browser {
	s.t.Helper()
	at, err := url.Parse(s.web.URL)
	must(s.t, err)
	other := s.browser("")
	other.client.Jar.SetCookies(at, b.client.Jar.Cookies(at))
	other.client.Jar.SetCookies(at, []*http.Cookie{{Name: "login", Value: user}})
	return other
}

// forgedTicket returns the ticket of a form for a browser whose cookie is known,
// as a person has it who sees through their own browser, and that cookie.
func forgedTicket(token, user string) (ticket, cookie string) {
	secret := make([]byte, sha256.Size)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(token + "\n" + user))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)),
		"fermata-links=" + base64.RawURLEncoding.EncodeToString(secret)
}

// view is what a browser shows.
type view struct {
	t      *testing.T
	status int
	header http.Header
	text   string
}

func (b *browser) do(method, address string, body io.Reader) view {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, address, body)
	must(b.t, err)
	r.Header = b.header.Clone()
	if method == http.MethodPost && r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	res, err := b.client.Do(r)
	must(b.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	must(b.t, err)
	v := view{b.t, res.StatusCode, res.Header, string(text)}
	v.guarded()
	return v
}

func (b *browser) get(address string) view {
	b.t.Helper()
	return b.do(http.MethodGet, address, nil)
}

// press sends the form of a page that was looked at, as the button act does.
func (b *browser) press(address string, seen view, act string, fields ...string) view {
	b.t.Helper()
	form := url.Values{"ticket": {seen.ticket()}, "act": {act}}
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return b.do(http.MethodPost, address, strings.NewReader(form.Encode()))
}

// decide opens a link, presses a button, and follows where that leads.
func (b *browser) decide(address, act string, fields ...string) view {
	b.t.Helper()
	sent := b.press(address, b.get(address), act, fields...)
	if sent.status != http.StatusSeeOther {
		return sent
	}
	if to := sent.header.Get("Location"); !strings.HasSuffix(address, "/"+to) {
		b.t.Errorf("a decision leads to %q", to)
	}
	return b.get(address)
}

var ticketField = regexp.MustCompile(`name="ticket" value="([^"]+)"`)

func (v view) ticket() string {
	m := ticketField.FindStringSubmatch(v.text)
	if m == nil {
		return ""
	}
	return html.UnescapeString(m[1])
}

// body returns the page without its head.
func (v view) body() string {
	_, body, _ := strings.Cut(v.text, "</head>")
	return body
}

// is checks a page's status, and that it tells something.
func (v view) is(status int, texts ...string) {
	v.t.Helper()
	if v.status != status {
		v.t.Errorf("the status is %d, not %d:\n%s", v.status, status, v.body())
	}
	for _, text := range texts {
		if !strings.Contains(html.UnescapeString(v.text), text) {
			v.t.Errorf("the page doesn't have %q:\n%s", text, v.body())
		}
	}
}

// lacks checks that a page doesn't tell something.
func (v view) lacks(texts ...string) {
	v.t.Helper()
	for _, text := range texts {
		if strings.Contains(v.text, text) {
			v.t.Errorf("the page has %q:\n%s", text, v.body())
		}
	}
}

var style = regexp.MustCompile(`(?s)<style>(.*?)</style>`)

// guarded checks what holds for every page, whatever it tells.
func (v view) guarded() {
	v.t.Helper()
	for name, want := range map[string]string{
		"Cache-Control": "no-store", "Referrer-Policy": "no-referrer",
		"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
	} {
		if got := v.header.Get(name); got != want {
			v.t.Errorf("a %d has %s %q", v.status, name, got)
		}
	}
	policy := v.header.Get("Content-Security-Policy")
	for _, rule := range []string{"default-src 'none'", "frame-ancestors 'none'",
		"form-action 'self'", "base-uri 'none'"} {
		if !strings.Contains(policy, rule) {
			v.t.Errorf("a %d has the policy %q, without %q", v.status, policy, rule)
		}
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "script-src") {
		v.t.Errorf("the policy is %q", policy)
	}
	if v.text == "" {
		return
	}
	m := style.FindStringSubmatch(v.text)
	if m == nil || !strings.Contains(policy, "'"+sha256Of(m[1])+"'") {
		v.t.Errorf("the policy doesn't allow the page's style: %q", policy)
	}
	if v.header.Get("Content-Type") != "text/html; charset=utf-8" ||
		!strings.Contains(v.text, `<html lang="en">`) || !strings.Contains(v.text, "<h1>") {
		v.t.Errorf("a %d is no page: %s\n%s", v.status, v.header.Get("Content-Type"), v.text)
	}
	bad := regexp.MustCompile(`(?i)<script|<[^>]+\s(style|on\w+)=|<(iframe|object|embed|img|base)\b`)
	// What stands in quotes is no attribute.
	tags := regexp.MustCompile(`"[^"<>]*"`).ReplaceAllString(v.text, `""`)
	if at := bad.FindString(tags); at != "" {
		v.t.Errorf("the page has %q:\n%s", at, v.body())
	}
}

// dump returns all that a store has, byte for byte.
func dump(t *testing.T, kv kvstore.Store) string {
	t.Helper()
	var b strings.Builder
	var after []byte
	for {
		page, err := kv.Scan(t.Context(), kvstore.Range{After: after})
		must(t, err)
		for _, e := range page.Entries {
			b.WriteString(string(e.Key) + "=" + string(e.Value) + "\n")
			after = e.Key
		}
		if !page.More {
			return b.String()
		}
	}
}

// decisions returns who decided, and how.
func (s *linkSite) decisions() (all []string) {
	s.t.Helper()
	for _, d := range s.call().Decisions {
		word := "denied"
		if d.Approved {
			word = "approved"
		}
		all = append(all, word+" by "+d.Actor+": "+d.Reason)
	}
	return all
}

// says sends another message of the user, in the place of answers.
func (s *linkSite) says(text string) {
	s.t.Helper()
	s.drain(s.rn.Run(s.t.Context(), "ada", chat, llm.UserText(text),
		&runner.RunOptions{Supersede: true}))
}
