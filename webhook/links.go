package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// ErrNoUser is what LinksConfig.User returns where a request is of no user: of a
// person who isn't signed in.
var ErrNoUser = errors.New("webhook: the request is of no user")

// LinksConfig configures the pages behind links. It needs a Base, and a User.
type LinksConfig struct {
	// Base is the address of the handler as the outside world knows it:
	// "https://agents.example.com/links". With https, cookies are sent over
	// that alone.
	Base string
	// User returns who sent a request, by the program's own authentication: a
	// session cookie, say. It returns ErrNoUser, or the empty actor, where no
	// person is signed in. It must not believe anything that a link brings along.
	User func(*http.Request) (runner.Actor, error)
	// SignIn, if set, returns where a person signs in who isn't yet: a page of
	// the program's own, which may lead back to the request's address.
	SignIn func(*http.Request) string
	// SignInFirst shows nothing to a person who isn't signed in, not even
	// whether the link is good. Otherwise such a person sees what is asked, but
	// no user's name, and decides nothing.
	SignInFirst bool
	// AddresseeDecides takes what is done with a link for done by its Holder:
	// a person who has the link decides in that name, also one to whom it was
	// passed on. It takes the place of User. It is impossible where the pause
	// names its approvers.
	AddresseeDecides bool
	// Actor is who looks at a pause for a person who isn't signed in; default
	// "webhook". It never decides.
	Actor runner.Actor
	// MaxBody bounds what a form may send, in bytes; default 1 MiB.
	MaxBody int64
	// ReadTimeout bounds how long that may take to arrive; default 30 s.
	ReadTimeout time.Duration
	// Limits bound how many requests are taken. Sender is for each user. The zero
	// value takes all.
	Limits Limits
	// Logger gets the errors that no person is told; default slog.Default. It gets
	// no link.
	Logger *slog.Logger
}

// Links makes links that a person opens in a browser, and is the handler of the
// pages behind them. A page shows what is asked: the call and its arguments, who
// asks, what will happen, and until when. It has a form with buttons, or with
// fields for an answer.
//
// A link is a token of the runner, for one open pause and for what that pause
// showed when the link was made. Opening it changes nothing: a mail
// scanner may, a preview, a browser that looks ahead. What decides is the form,
// sent by a browser that the page was made for, and by a person whom
// LinksConfig.User knows. A pause is answered once; a page that is opened later
// tells what became of it.
//
// A link is no token for the handler of [New], which refuses it.
type Links struct {
	door
	rn     *runner.Runner
	config LinksConfig
	secure bool // cookies go over TLS alone
	origin string
}

// NewLinks returns the handler of links. It needs no agent: a runner that only
// takes answers will do. What a person's answer sets in motion, a worker does.
//
//	links, err := webhook.NewLinks(rn, webhook.LinksConfig{Base: base, User: login})
//	http.Handle("/links/", links)
func NewLinks(rn *runner.Runner, c LinksConfig) (*Links, error) {
	if rn == nil {
		return nil, errors.New("webhook: the runner is nil")
	}
	base, err := url.Parse(c.Base)
	switch {
	case err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" ||
		base.RawQuery != "" || base.Fragment != "" || base.User != nil:
		return nil, fmt.Errorf("webhook: LinksConfig.Base is %q; it is the address of the "+
			"handler, as https://agents.example.com/links", c.Base)
	case c.User == nil && !c.AddresseeDecides:
		return nil, errors.New("webhook: LinksConfig.User is nil, so that no person could decide: " +
			"set it to a function that returns who is signed in")
	case c.User != nil && c.AddresseeDecides:
		return nil, errors.New("webhook: LinksConfig has a User and AddresseeDecides: " +
			"either a login says who decides, or the link does")
	case c.AddresseeDecides && (c.SignInFirst || c.SignIn != nil):
		return nil, errors.New("webhook: LinksConfig has AddresseeDecides and a way to sign in")
	}
	d, err := newDoor(door{bodies: bodies(c.MaxBody, c.ReadTimeout), logger: c.Logger},
		c.Limits)
	if err != nil {
		return nil, err
	}
	if c.Actor == "" {
		c.Actor = "webhook"
	}
	c.Base = strings.TrimRight(c.Base, "/")
	return &Links{door: d, rn: rn, config: c, secure: base.Scheme == "https",
		origin: base.Scheme + "://" + base.Host}, nil
}

// Link is what a link is made for.
type Link struct {
	// Pause is the pause as it was read, and as what stands beside the link
	// shows it.
	Pause tool.Pause
	// Permits are what the page offers: tool.PermitLinkApprove and
	// tool.PermitLinkDeny, or tool.PermitLinkAnswer. Empty: what the pause waits
	// for, both decisions or an answer.
	Permits []tool.Permit
	// Holder is whom the link is for. Where the addressee decides it is needed,
	// and is who decides; otherwise it is a note in the link.
	Holder runner.Actor
	// Lifetime is how long the link is good; zero: as long as tokens are.
	Lifetime time.Duration
}

// URL makes a link. The actor is who makes it: the Authorizer is asked whether
// they may, with runner.OpMint. A link is a secret as a token is: it is made
// when it is sent, and not stored.
func (l *Links) URL(ctx context.Context, link Link, actor runner.Actor) (string, error) {
	p := link.Pause
	permits := slices.Clone(link.Permits)
	if len(permits) == 0 {
		permits = []tool.Permit{tool.PermitLinkAnswer}
		if p.Await.Gate != "" {
			permits = []tool.Permit{tool.PermitLinkApprove, tool.PermitLinkDeny}
		}
	}
	if err := l.fits(link, permits); err != nil {
		return "", err
	}
	token, err := l.rn.MintToken(ctx, runner.Grant{
		Session: p.Session, Pause: p.ID, Permits: permits, Holder: link.Holder,
		Lifetime: link.Lifetime, Shown: runner.Shown(p),
	}, actor)
	if err != nil {
		return "", err
	}
	return l.config.Base + "/" + token, nil
}

// fits returns why a link could decide nothing.
func (l *Links) fits(link Link, permits []tool.Permit) error {
	p := link.Pause
	refuse := func(why string) error {
		return fmt.Errorf("%w: a link for %s: %s", runner.ErrInvalidGrant, p.ID, why)
	}
	if i := slices.IndexFunc(permits, func(p tool.Permit) bool { return !p.Link() }); i >= 0 {
		return refuse(fmt.Sprintf("%q is no permit of links", permits[i]))
	}
	switch {
	case p.Await.Sender != "":
		return refuse("the pause takes the signed answers of " + p.Await.Sender + " alone")
	case p.Await.Gate == "" && !answerable(p):
		return refuse("a person can't answer a pause of reason " + string(p.Await.Reason))
	case l.config.AddresseeDecides && len(p.Await.Approvers) > 0:
		return refuse("the pause names its approvers, so that the addressee can't decide")
	case l.config.AddresseeDecides && link.Holder == "":
		return refuse("it needs a Holder, who decides")
	}
	return nil
}

// answerable reports whether a person may answer a tool's pause with a value.
func answerable(p tool.Pause) bool {
	switch p.Await.Reason {
	case tool.ReasonInput, tool.ReasonExternal:
		return p.Await.Mail == nil
	}
	return false
}
