package webhook

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/internal/form"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// The one page, in its states, and its style. The style stands in the page, and
// the policy names it by its hash: a page needs no second request.
var (
	//go:embed links.html
	linkHTML string
	//go:embed links.css
	linkStyle string

	linkPage      = template.Must(template.New("link").Parse(linkHTML))
	linkStyleHash = hashOf(linkStyle)
)

// hashOf returns the source expression of a policy for an inline text (CSP3,
// section 2.3.1).
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// page is what the template shows. What isn't set is left out.
type page struct {
	Style  template.CSS
	Title  string
	Alert  string // what went wrong
	Words  string // what happened, or is to be done
	SignIn string // an address
	Asked  *asked
	Form   *shownForm
}

// asked is what a pause asks.
type asked struct {
	Prompt    string
	Tool      string
	User      string // who asks; empty to those who aren't told names
	Agent     string
	Approvers []string // who alone decide; as with User
	Path      []string // the tools that lead to a session below the user's
	Arguments string
	Diff      string
	Will      []string // what will happen
	Until     string   // for people
	UntilTime string   // for programs
}

// shownForm is the form of a visitor who may decide.
type shownForm struct {
	Ticket  string
	Reason  bool
	Fields  []*form.Field
	Buttons []act
}

// Name and Label are for the template.
func (a act) Name() string  { return a.name }
func (a act) Label() string { return a.label }

// offer shows what the pause asks, with the form of those who may decide.
func (v *visit) offer(status int, alert string) {
	p := page{Title: "A decision is needed", Alert: alert, Asked: v.asked()}
	if v.pause.Await.Gate == "" {
		p.Title = "An answer is needed"
	}
	switch {
	case v.user == "":
		p.Words = "Sign in to decide."
		p.SignIn = v.signIn()
	case !v.mayDecide():
		p.Words = "This is for others to decide."
	default:
		p.Form = v.shownForm()
	}
	v.write(status, p)
}

// shownForm returns the form of a visitor who may decide.
func (v *visit) shownForm() *shownForm {
	out := &shownForm{Ticket: v.ticket(), Reason: v.pause.Await.Gate != ""}
	for _, a := range acts {
		if v.token.Allows(a.permit) {
			out.Buttons = append(out.Buttons, a)
		}
	}
	if v.token.Allows(tool.PermitLinkAnswer) {
		if v.form == nil {
			v.form = v.newForm()
		}
		out.Fields = v.form.Fields
	}
	return out
}

// asked returns what the open pause asks, as a person reads it.
func (v *visit) asked() *asked {
	p := v.pause
	a := &asked{Prompt: form.Visible(p.Await.Prompt), Tool: form.Visible(p.Tool),
		Agent: form.Visible(p.Agent), Diff: form.Visible(diffOf(p))}
	if v.user != "" {
		a.User = form.Visible(p.User)
	}
	if v.named() {
		for _, name := range p.Await.Approvers {
			a.Approvers = append(a.Approvers, form.Visible(name))
		}
	}
	for _, step := range p.Path {
		a.Path = append(a.Path, form.Visible(step.Tool))
	}
	if len(p.Arguments) > 0 {
		a.Arguments = form.Print(p.Arguments)
	}
	for _, act := range acts {
		if v.token.Allows(act.permit) {
			a.Will = append(a.Will, fmt.Sprintf(act.will, a.Tool))
		}
	}
	until := time.Unix(v.token.Expires, 0)
	if !p.Deadline.IsZero() && p.Deadline.Before(until) {
		until = p.Deadline
	}
	a.Until, a.UntilTime = forPeople(until), until.UTC().Format(time.RFC3339)
	return a
}

// diffOf returns what the call would change, if the layer that asks has told so.
func diffOf(p tool.Pause) string {
	var data struct {
		Diff string `json:"diff"`
	}
	if p.Await.Gate == "" || json.Unmarshal(p.Await.Data, &data) != nil {
		return ""
	}
	return data.Diff
}

func forPeople(t time.Time) string { return t.UTC().Format("Monday, 2 January 2006, 15:04 UTC") }

// story tells how a pause ended.
func (v *visit) story(end runner.PauseEnd) (title, words string) {
	title, what := "This is over", "It"
	switch end.How {
	case runner.EndedApproved:
		title, what = "Approved", "This was approved"
	case runner.EndedDenied:
		title, what = "Denied", "This was denied"
	case runner.EndedAnswered:
		title, what = "Answered", "This was answered"
	case runner.EndedFailed:
		title, what = "This is over", "What this was about has failed"
	case runner.EndedExpired:
		title, what = "Too late", "Nobody answered in time; the time was over"
	case runner.EndedCancelled:
		title, what = "Cancelled", "This was cancelled"
	case runner.EndedSuperseded:
		title, what = "No longer needed", "The user went on with another message instead"
	case runner.StillOpen:
		return "Not yet", "What this link is for isn't asked yet. Please open it again in a moment."
	default:
		return title, "What this link was made for doesn't wait any more."
	}
	var by string
	switch {
	case v.own(end):
		by = " by you"
	case v.named() && end.Actor != "":
		by = " by " + form.Visible(string(end.Actor))
	}
	switch end.How {
	case runner.EndedApproved, runner.EndedDenied, runner.EndedAnswered, runner.EndedCancelled:
		what += by
	}
	if !end.At.IsZero() {
		what += " on " + forPeople(end.At)
	}
	return title, what + "."
}

// expired tells of a link that was good until a time. What became of it
// meanwhile is for those who are signed in.
func (v *visit) expired() {
	words := "This link was good until " + forPeople(time.Unix(v.token.Expires, 0)) + "."
	if v.user != "" {
		end, err := v.links.rn.Ended(v.r.Context(), v.ref(), v.user)
		if err == nil && end.How != runner.StillOpen {
			_, story := v.story(end)
			words += " " + story
		}
	}
	v.tell(http.StatusGone, "This link has expired", words)
}

// noLink tells of what is no link, and doesn't tell why.
func (v *visit) noLink() {
	v.tell(http.StatusNotFound, "This link isn't valid",
		"Perhaps a part of it is missing. Please open it from the message in which it came.")
}

// signInFirst answers a person who isn't signed in.
func (v *visit) signInFirst() {
	v.w.Header().Set("WWW-Authenticate", "Cookie") // RFC 9110, section 15.5.2, wants one
	v.write(http.StatusUnauthorized, page{Title: "Please sign in",
		Words: "Sign in, and open the link again.", SignIn: v.signIn()})
}

func (v *visit) signIn() string {
	if v.links.config.SignIn == nil {
		return ""
	}
	return v.links.config.SignIn(v.r)
}

// tell answers with a page of words.
func (v *visit) tell(status int, title, words string) {
	v.write(status, page{Title: title, Words: words})
}

func (v *visit) write(status int, p page) {
	p.Style = template.CSS(linkStyle)
	var b bytes.Buffer
	if err := linkPage.Execute(&b, p); err != nil {
		v.links.logger.ErrorContext(v.r.Context(), "the page of a link could not be made",
			"error", strings.ReplaceAll(err.Error(), v.secret(), "(link)"))
		http.Error(v.w, "This didn't work just now.", http.StatusInternalServerError)
		return
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.WriteHeader(status)
	_, _ = v.w.Write(b.Bytes()) // a browser that has gone away will ask again
}
