package webhook

import (
	"errors"
	"net/http"
	"strings"

	"github.com/fermata-ai/fermata/internal/form"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// visit is one request to a page. It belongs to that request's goroutine.
type visit struct {
	links *Links
	w     http.ResponseWriter
	r     *http.Request
	text  string       // of the link's token
	token runner.Token // what the link is for
	user  runner.Actor // who is signed in, or decides as the addressee; empty: no person
	pause tool.Pause   // with an Await, if it is open
	form  *form.Form   // of an answer

	patient func() // lifts the bound on how long the request's body may take
}

// ServeHTTP shows the page of a link, or takes what its form sends.
func (l *Links) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	guard(w.Header())
	// Also for a body that isn't read: the server takes what is left of it.
	v := &visit{links: l, w: w, r: r, patient: l.bodies.LimitReading(w, r)}
	// The link is the last part of the path, wherever the handler is mounted.
	v.text = r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	if err := l.knock(r); err != nil {
		v.fail(err)
		return
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		if v.open() {
			v.show()
		}
	case http.MethodPost:
		if v.foreign() {
			v.tell(http.StatusForbidden, "This came from another page", "A decision is taken "+
				"from the page behind the link alone. Please open the link itself.")
		} else if v.open() {
			v.take()
		}
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		v.tell(http.StatusMethodNotAllowed, "This can't be done here",
			"A link is opened, and its form is sent; nothing else is taken.")
	}
}

// open finds out who visits, what the link is for, and what it is about. It
// reports whether the visit may go on; otherwise it has answered.
func (v *visit) open() bool {
	user, err := v.signedIn()
	if err != nil {
		v.fail(err)
		return false
	}
	v.user = user
	if v.user != "" {
		if err := v.links.limits.sender.Take(string(v.user), v.links.now()); err != nil {
			v.fail(err)
			return false
		}
	}
	if v.user == "" && v.links.config.SignInFirst {
		v.signInFirst()
		return false
	}
	token, err := v.links.rn.ReadToken(v.r.Context(), v.text)
	switch {
	case err == nil && token.Shown != "":
		v.token = token
	case errors.Is(err, runner.ErrTokenExpired) && token.Shown != "":
		v.token = token
		v.expired()
		return false
	case err == nil || errors.Is(err, runner.ErrBadToken):
		v.noLink()
		return false
	default:
		v.fail(err)
		return false
	}
	if err := v.links.limits.token.Take(tokenName(v.text), v.links.now()); err != nil {
		v.fail(err)
		return false
	}
	if v.links.config.AddresseeDecides {
		v.user = token.Holder
	}
	v.pause, err = v.links.rn.Find(v.r.Context(), v.ref(), v.looks())
	if err != nil {
		v.fail(err)
		return false
	}
	return true
}

// signedIn returns who has signed in, by the program's own word.
func (v *visit) signedIn() (runner.Actor, error) {
	if v.links.config.User == nil {
		return "", nil
	}
	user, err := v.links.config.User(v.r)
	if errors.Is(err, ErrNoUser) {
		return "", nil
	}
	return user, err
}

// looks returns who reads the pause.
func (v *visit) looks() runner.Actor {
	if v.user == "" {
		return v.links.config.Actor
	}
	return v.user
}

// named reports whether the visitor is told who else was at work. The holder of
// a link hasn't shown who they are.
func (v *visit) named() bool { return v.user != "" && !v.links.config.AddresseeDecides }

// ref names the link's pause, also once the link has expired.
func (v *visit) ref() runner.Ref {
	return runner.Ref{Pause: v.token.PauseID(), Session: v.token.Session}
}

// show answers with the page of the link.
func (v *visit) show() {
	if v.pause.Await.Reason == "" {
		v.over(http.StatusGone)
		return
	}
	if !v.unchanged() {
		return
	}
	v.offer(http.StatusOK, "")
}

// unchanged reports whether the pause still shows what the link was made for;
// otherwise it has answered. It can be another's: a store that was put back to an
// earlier state, or a layer that asked in the place of the one that the link is
// for.
func (v *visit) unchanged() bool {
	if runner.Shown(v.pause) == v.token.Shown {
		return true
	}
	v.tell(http.StatusConflict, "Something else is asked now",
		"What this link was made for has changed since. Nothing was decided by it.")
	return false
}

// over tells what became of a pause. The page of a person's own decision is no
// error.
func (v *visit) over(status int) {
	end, err := v.links.rn.Ended(v.r.Context(), v.ref(), v.looks())
	if err != nil {
		v.fail(err)
		return
	}
	if v.own(end) && status == http.StatusGone {
		status = http.StatusOK
	}
	title, words := v.story(end)
	v.tell(status, title, words)
}

func (v *visit) own(end runner.PauseEnd) bool {
	switch end.How {
	case runner.EndedApproved, runner.EndedDenied, runner.EndedAnswered:
		return v.user != "" && v.user == end.Actor
	}
	return false
}

// fail answers a visit that an error has ended.
func (v *visit) fail(err error) {
	status := Status(err)
	if status >= 500 && !errors.Is(err, session.ErrNotYetKnown) {
		// The error of a User may hold the address that it was given.
		v.links.logger.ErrorContext(v.r.Context(), "a link could not be served",
			"session", v.token.Session, "call", v.token.Call, "status", status,
			"error", strings.ReplaceAll(err.Error(), v.secret(), "(link)"))
	}
	switch {
	case errors.Is(err, session.ErrOtherGate):
		v.tell(http.StatusConflict, "Something else is asked now",
			"Another check asks in the place of the one that this link is for.")
	case errors.Is(err, runner.ErrNotAllowed) && v.user == "":
		v.signInFirst()
	case errors.Is(err, runner.ErrNotAllowed), errors.Is(err, session.ErrNotApprover):
		v.tell(http.StatusForbidden, "You may not do this",
			"Your account isn't allowed to see this request, or to decide it.")
	case status == http.StatusNotFound || status == http.StatusGone:
		v.tell(http.StatusGone, "This is over",
			"What this link was made for isn't known any more.")
	case status == http.StatusTooManyRequests:
		v.w.Header().Set("Retry-After", retryAfter(err))
		v.tell(status, "This was opened too often", "Please wait a moment, and open it again.")
	case status >= 500:
		if status == http.StatusServiceUnavailable {
			v.w.Header().Set("Retry-After", retryAfter(err))
		}
		v.tell(status, "This didn't work just now",
			"Nothing was decided, as far as is known. Please try again in a moment.")
	default:
		v.tell(status, "This could not be taken", Detail(err))
	}
}

// secret is the text by which a link would be told in a log.
func (v *visit) secret() string {
	if v.text == "" {
		return "\x00"
	}
	return v.text
}
