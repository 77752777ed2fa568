package browser_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/tool"
)

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

type refundInput struct {
	Order string `json:"order"`
	Cents int    `json:"cents"`
}

var refund = tool.Must(tool.Func(tool.Spec{Name: "refund", Description: "Refund."},
	func(context.Context, refundInput) (tool.Result[string], error) {
		return tool.Done("paid"), nil
	}))

// refunding is a site with a refund that waits for an approval.
func refunding(t *testing.T) *site {
	return newSite(t, refund, fakellm.New(
		fakellm.Calls("refund", `{"order":"7`+strings.Repeat("x", 300)+`","cents":500}`),
		fakellm.Says("Done.")), interceptor.Approval(nil))
}

// A person opens a link, decides, goes back, and decides again: it counts once.
func TestALinkInABrowser(t *testing.T) {
	b, s := start(t), refunding(t)
	link, p := s.link()
	b.do(b.ctx, chromedp.Navigate(link))
	b.shows(b.ctx, "A decision is needed", "Sign in to decide.", `"cents": 500`)
	b.do(b.ctx, chromedp.Navigate(s.URL+"/login?as=grace"), chromedp.Navigate(link))
	b.shows(b.ctx, "A decision is needed", "On behalf of", "ada")
	// The same page once more, in a tab that stays open.
	second := b.tab()
	b.do(second, chromedp.Navigate(link))
	b.shows(second, "A decision is needed")

	b.do(b.ctx, chromedp.SendKeys(chromedp.ID("reason"), "checked"),
		chromedp.Click(chromedp.CSS("button.approve")))
	b.shows(b.ctx, "Approved", "by you")
	b.do(b.ctx, chromedp.Reload())
	b.shows(b.ctx, "Approved", "by you")
	if n := len(s.receipts(p)); n != 1 {
		t.Fatalf("there are %d receipts", n)
	}
	// Back is the page as it is now: it is kept nowhere, and has no form any more.
	b.do(b.ctx, chromedp.NavigateBack())
	b.shows(b.ctx, "Approved", "by you")
	if n := asks[int](b, b.ctx, "document.forms.length"); n != 0 {
		t.Errorf("back, there are %d forms", n)
	}
	b.do(second, chromedp.Click(chromedp.CSS("button.deny")))
	b.shows(second, "Approved", "by you")
	b.do(second, chromedp.NavigateBack())
	b.shows(second, "Approved", "by you")
	if all := s.receipts(p); len(all) != 1 || all[0].Actor != "grace" || all[0].Decided != "approved" {
		t.Errorf("the receipts are %+v", all)
	}
	if all := b.blamed("Security Policy"); len(all) > 0 {
		t.Errorf("the pages break their own policy: %q", all)
	}
}

// By keyboard alone, on a phone: the reason, then Approve, then Deny.
func TestALinkByKeyboardOnAPhone(t *testing.T) {
	b, s := start(t), refunding(t)
	link, p := s.link()
	b.do(b.ctx, chromedp.EmulateViewport(360, 640, chromedp.EmulateMobile),
		chromedp.Navigate(s.URL+"/login?as=grace"), chromedp.Navigate(link))
	b.shows(b.ctx, "A decision is needed")
	if width := asks[int](b, b.ctx, "document.documentElement.scrollWidth"); width > 360 {
		t.Errorf("the page is %d pixels wide on a screen of 360", width)
	}
	color := asks[string](b, b.ctx,
		"getComputedStyle(document.querySelector('button.approve')).backgroundColor")
	if color != "rgb(29, 79, 145)" {
		t.Errorf("the page's style isn't taken: the button is %s", color)
	}
	b.named("textbox", "Reason (may stay empty)")
	b.named("button", "Approve")
	b.named("button", "Deny")
	b.do(b.ctx, chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent("not this one"),
		chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
	b.shows(b.ctx, "Denied", "by you")
	call, err := s.rn.Call(t.Context(), p.Session, p.Call, "ada")
	must(t, err)
	if d := call.Decisions; len(d) != 1 || d[0].Approved || d[0].Reason != "not this one" {
		t.Errorf("the decisions are %+v", d)
	}
}

// named checks that a screen reader finds something by its role and name.
func (b *browser) named(role, name string) {
	b.t.Helper()
	tree, err := chromedp.Call(b.ctx, accessibility.GetFullAXTree,
		accessibility.GetFullAXTreeParams{})
	must(b.t, err)
	for _, n := range tree.Nodes {
		if n.Role != nil && n.Name != nil && string(n.Role.Value) == quoted(role) &&
			string(n.Name.Value) == quoted(name) {
			return
		}
	}
	b.t.Errorf("a screen reader finds no %s %q", role, name)
}

type seats struct {
	Seats int    `json:"seats" jsonschema:"minimum=1"`
	Class string `json:"class" jsonschema:"enum=first,enum=second"`
}

// A question's form holds what was filled in until it fits.
func TestAFormInABrowser(t *testing.T) {
	b := start(t)
	s := newSite(t, tool.Must(tool.Func(tool.Spec{Name: "ask", Description: "Ask.", MayPause: true},
		func(context.Context, struct{}) (tool.Result[seats], error) {
			return tool.NeedInput[seats]("How many seats?"), nil
		})), fakellm.New(fakellm.Calls("ask", `{}`), fakellm.Says("Done.")))
	link, p := s.link()
	b.do(b.ctx, chromedp.Navigate(s.URL+"/login?as=ada"), chromedp.Navigate(link))
	b.shows(b.ctx, "An answer is needed", "How many seats?")
	b.named("textbox", "seats")
	b.named("combobox", "class")
	b.do(b.ctx, chromedp.SendKeys(chromedp.ID("f0"), "two"),
		chromedp.SetValue(chromedp.ID("f1"), "1"), chromedp.Click(chromedp.CSS("button.answer")),
		chromedp.WaitVisible(chromedp.ID("f0-fault")))
	b.shows(b.ctx, "An answer is needed", "must be a number")
	b.do(b.ctx, chromedp.SetValue(chromedp.ID("f0"), "2"),
		chromedp.Click(chromedp.CSS("button.answer")))
	b.shows(b.ctx, "Answered", "by you")
	for _, err := range s.rn.Continue(t.Context(), p.Session, "ada") {
		must(t, err)
	}
	call, err := s.rn.Call(t.Context(), p.Session, p.Call, "ada")
	must(t, err)
	if got := string(call.Output); got != `{"seats":2,"class":"second"}` {
		t.Errorf("the answer is %s", got)
	}
}

// A page of another site can't frame the page, and can't send its form, in a
// browser whose person is signed in.
func TestAnotherSitesPageInABrowser(t *testing.T) {
	b, s := start(t), refunding(t)
	link, p := s.link()
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		body := `<h1>Evil</h1><iframe src="` + link + `"></iframe>`
		if r.URL.Path == "/post" {
			body = `<h1>Evil</h1><form method="post" action="` + link + `">` +
				`<input name="act" value="approve"><button>Win a prize</button></form>`
		}
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(evil.Close)
	other := strings.Replace(evil.URL, "127.0.0.1", "localhost", 1) // another site
	b.do(b.ctx, chromedp.Navigate(s.URL+"/login?as=grace"), chromedp.Navigate(link))
	b.shows(b.ctx, "A decision is needed")
	b.do(b.ctx, chromedp.Navigate(other+"/frame"), chromedp.WaitVisible(chromedp.CSS("iframe")))
	if all := b.blamed("frame-ancestors"); len(all) == 0 {
		t.Error("the browser has framed the page")
	}
	b.do(b.ctx, chromedp.Navigate(other+"/post"), chromedp.Click(chromedp.CSS("button")))
	b.shows(b.ctx, "This came from another page")
	// Nor can a page of the same host, which is sent the cookies.
	b.do(b.ctx, chromedp.Navigate(evil.URL+"/post"), chromedp.Click(chromedp.CSS("button")))
	b.shows(b.ctx, "This came from another page")
	if all := s.receipts(p); len(all) != 0 {
		t.Errorf("the receipts are %+v", all)
	}
}
