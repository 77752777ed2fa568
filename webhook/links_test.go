package webhook_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/webhook"
)

func sha256Of(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// A person reads what is asked, and decides; the decision is theirs, whomever the
// link was for. Who comes later reads what happened.
func TestAPersonDecidesByALink(t *testing.T) {
	for _, c := range []struct{ act, did, title string }{
		{"approve", "approved by grace: checked", "Approved"},
		{"deny", "denied by grace: checked", "Denied"},
	} {
		t.Run(c.act, func(t *testing.T) {
			s := newLinkSite(t, paying(order7), webhook.LinksConfig{})
			p := s.waits()
			link := s.link(webhook.Link{Pause: p, Holder: "heidi"})
			grace := s.browser("grace")
			page := grace.get(link)
			page.is(http.StatusOK, "Run pay?", `"cents": 9007199254740993`, "On behalf of", "ada",
				"pay runs, with exactly what is shown here", "pay doesn't run", "Open until",
				`name="act" value="approve"`, `name="act" value="deny"`)
			done := grace.decide(link, c.act, "reason", " checked\r\n")
			done.is(http.StatusOK, c.title, "by you on ")
			done.lacks("<form")
			if got := s.decisions(); !slices.Equal(got, []string{c.did}) {
				t.Errorf("the decisions are %q", got)
			}
			// The page is still open in the browser: the same again is a duplicate, and
			// another decision comes too late.
			grace.press(link, page, c.act, "reason", "checked").is(http.StatusSeeOther)
			other := map[string]string{"approve": "deny", "deny": "approve"}[c.act]
			grace.press(link, page, other).is(http.StatusConflict, c.title, "by you")
			s.browser("ivan").decide(link, other).is(http.StatusConflict, "by grace")
			s.browser("ivan").get(link).is(http.StatusGone, c.title, "by grace on ")
			nobody := s.browser("").get(link)
			nobody.is(http.StatusGone, c.title+"</h1>", " on ")
			nobody.lacks("grace", "ada", "heidi")
			s.carryOn()
			if got := s.decisions(); !slices.Equal(got, []string{c.did}) {
				t.Errorf("the decisions are %q", got)
			}
			grace.get(link).is(http.StatusOK, c.title, "by you")
		})
	}
}

// A link may offer one decision alone.
func TestALinkForOneDecision(t *testing.T) {
	s := newLinkSite(t, paying(order7), webhook.LinksConfig{})
	link := s.link(webhook.Link{Pause: s.waits(), Permits: []tool.Permit{tool.PermitLinkDeny}})
	grace := s.browser("grace")
	page := grace.get(link)
	page.is(http.StatusOK, `value="deny"`)
	page.lacks(`value="approve"`, "Approve:")
	for _, act := range []string{"approve", "answer", "", "cancel"} {
		grace.press(link, page, act).is(http.StatusForbidden)
	}
	if got := s.decisions(); len(got) != 0 {
		t.Errorf("the decisions are %q", got)
	}
	grace.decide(link, "deny").is(http.StatusOK, "Denied")
}

// A question's form has a field for each part of the answer, tells beside it what
// doesn't fit, and keeps what was filled in.
func TestAPersonAnswersByALink(t *testing.T) {
	s := newLinkSite(t, asking("Who travels?"), webhook.LinksConfig{})
	link := s.link(webhook.Link{Pause: s.waits()})
	ada := s.browser("ada")
	page := ada.get(link)
	page.is(http.StatusOK, "An answer is needed", "Who travels?", "How many travel",
		`<label for="f0"`, `inputmode="numeric" id="f0" name="f0" value="" aria-describedby="f0-hint" required>`,
		`<option value="1">second</option>`, `<option value="0">Yes</option>`, "(may stay empty)",
		`<textarea id="f4" name="f4" rows="4" spellcheck="false" class="json">`)
	page.lacks(`name="reason"`)
	bad := ada.press(link, page, "answer", "f0", "two", "f1", "1", "f2", "0", "f4", "Oslo")
	bad.is(http.StatusUnprocessableEntity, `role="alert"`, "must be a number", `value="two"`,
		`aria-invalid="true"`, `aria-describedby="f0-hint f0-fault"`,
		`<option value="1" selected>second</option>`, "\nOslo</textarea>", "must be JSON")
	bad = ada.press(link, bad, "answer", "f0", "0", "f1", "1", "f2", "0", "f4", `[1]`)
	bad.is(http.StatusUnprocessableEntity, "Nothing was sent yet", "at least 1", "must be a string")
	ada.press(link, bad, "answer", "f1", "7").is(http.StatusUnprocessableEntity,
		"is required", "must be one of the choices")
	done := ada.press(link, bad, "answer", "f0", "2", "f1", "1", "f2", "1",
		"f3", "<b>\r\nlast", "f4", `["Oslo"]`)
	done.is(http.StatusSeeOther)
	ada.press(link, bad, "answer", "f0", "3").is(http.StatusConflict, "Answered", "by you")
	ada.get(link).is(http.StatusOK, "This was answered by you on ")
	s.carryOn()
	const want = `{"seats":2,"class":"second","pets":false,"note":"<b>\nlast","stops":["Oslo"]}`
	if got := string(s.call().Output); got != want {
		t.Errorf("the answer is %s", got)
	}
}

// What is over says so, to everyone; people are named to those who are signed in.
func TestALinkThatIsOverSaysWhatHappened(t *testing.T) {
	later := func(s *linkSite, c *clock, d time.Duration) { c.now = c.now.Add(d) }
	for name, c := range map[string]struct {
		happens func(s *linkSite, c *clock, p tool.Pause)
		status  int
		says    string
		names   string // who did it
	}{
		"cancelled": {func(s *linkSite, _ *clock, p tool.Pause) {
			_, err := s.rn.Cancel(s.t.Context(), chat, p.Call, "mallory", "")
			must(s.t, err)
		}, http.StatusGone, "This was cancelled", "mallory"},
		"superseded": {func(s *linkSite, _ *clock, p tool.Pause) {
			s.says("Never mind.")
		}, http.StatusGone, "went on with another message", ""},
		"expired": {func(s *linkSite, c *clock, p tool.Pause) {
			later(s, c, tool.DefaultApprovalTimeout)
		}, http.StatusGone, "the time was over", ""},
		"expired, and settled": {func(s *linkSite, c *clock, p tool.Pause) {
			later(s, c, tool.DefaultApprovalTimeout)
			s.carryOn()
		}, http.StatusGone, "the time was over", ""},
		"decided elsewhere": {func(s *linkSite, _ *clock, p tool.Pause) {
			_, err := s.rn.Resume(s.t.Context(), chat, runner.Deny(p.ID, "mallory", ""))
			must(s.t, err)
		}, http.StatusGone, "This was denied", "mallory"},
		"the link expired": {func(s *linkSite, c *clock, p tool.Pause) {
			later(s, c, 25*time.Hour)
		}, http.StatusGone, "This link was good until Saturday, 3 January 2026", ""},
		"the link expired, decided elsewhere": {func(s *linkSite, c *clock, p tool.Pause) {
			_, err := s.rn.Resume(s.t.Context(), chat, runner.Deny(p.ID, "mallory", ""))
			must(s.t, err)
			later(s, c, 25*time.Hour)
		}, http.StatusGone, "This link was good until", "mallory"},
		"the session deleted": {func(s *linkSite, _ *clock, p tool.Pause) {
			must(s.t, s.rn.Delete(s.t.Context(), chat, "ada"))
		}, http.StatusGone, "isn't known any more", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var cl clock
			o := paying(order7)
			o.session = cl.options()
			s := newLinkSite(t, o, webhook.LinksConfig{})
			p := s.waits()
			link := s.link(webhook.Link{Pause: p, Lifetime: 24 * time.Hour})
			if strings.HasPrefix(name, "expired") {
				link = s.link(webhook.Link{Pause: p})
			}
			grace := s.browser("grace")
			page := grace.get(link)
			c.happens(s, &cl, p)
			before := dump(t, s.kv)
			grace.get(link).is(c.status, c.says, c.names)
			nobody := s.browser("").get(link)
			nobody.is(c.status, c.says)
			nobody.lacks("mallory", "grace", "<form")
			sent := grace.press(link, page, "approve")
			if sent.status != http.StatusConflict && sent.status != http.StatusGone {
				t.Errorf("a decision that comes too late is answered with a %d", sent.status)
			}
			sent.is(sent.status, c.says, c.names)
			if after := dump(t, s.kv); !strings.HasPrefix(name, "expired") && after != before {
				t.Error("a decision that comes too late left a trace")
			}
			if got := s.browser("").get(link); strings.Contains(got.text, "<form") {
				t.Errorf("the page has a form: %s", got.text)
			}
		})
	}
}

// What can't work is refused when the handler, or the link, is made.
func TestLinksThatMakeNoSense(t *testing.T) {
	s := newLinkSite(t, paying(order7), webhook.LinksConfig{})
	for name, c := range map[string]webhook.LinksConfig{
		"no base":           {User: login},
		"a base of a path":  {Base: "/links", User: login},
		"a base with query": {Base: "https://x.example/?a", User: login},
		"nobody decides":    {Base: "https://x.example"},
		"two decide":        {Base: "https://x.example", User: login, AddresseeDecides: true},
		"sign in for nothing": {Base: "https://x.example", AddresseeDecides: true,
			SignInFirst: true},
		"a negative bound": {Base: "https://x.example", User: login, MaxBody: -1},
	} {
		if _, err := webhook.NewLinks(s.rn, c); err == nil {
			t.Errorf("%s: it is taken", name)
		}
	}
	if _, err := webhook.NewLinks(nil, webhook.LinksConfig{User: login}); err == nil {
		t.Error("a runner that is nil is taken")
	}
	p := s.waits()
	other := p
	other.Arguments = json.RawMessage(`{"order":"7","cents":1}`)
	signed := p
	signed.Await.Sender = "ci"
	job := p
	job.Await.Gate, job.Await.Reason = "", tool.ReasonTimer
	for name, l := range map[string]webhook.Link{
		"a webhook's permit": {Pause: p, Permits: []tool.Permit{tool.PermitApprove}},
		"an answer at a layer": {Pause: p,
			Permits: []tool.Permit{tool.PermitLinkAnswer}},
		"another content":     {Pause: other},
		"a sender's pause":    {Pause: signed},
		"a timer":             {Pause: job},
		"a life that is over": {Pause: p, Lifetime: -1},
	} {
		if _, err := s.links.URL(t.Context(), l, "mailer"); !errors.Is(err, runner.ErrInvalidGrant) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.links.URL(t.Context(), webhook.Link{}, "mailer"); err == nil {
		t.Error("a link for no pause is made")
	}
}
