package runner

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/internal/modeltext"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/tool"
)

// The refusals of tokens.
var (
	ErrBadToken     = errors.New("runner: the token is not valid")
	ErrTokenExpired = errors.New("runner: the token has expired")
)

// Token is the content of a callback token. Its text is "f2.", the claims as
// base64url JSON, ".", and an HMAC-SHA256 over all before it; nothing about a
// token is stored. Its holder can read it.
type Token struct {
	Key     int           `json:"k"` // of the ring
	Session string        `json:"s"`
	Call    string        `json:"c"`
	Pause   int           `json:"p"` // the only one that it is good for; 0: the call, for events
	Permits []tool.Permit `json:"o"`
	Holder  Actor         `json:"h,omitempty"` // who receipts name; empty: who delivers
	// Gate is the layer whose pause the token may decide, and no other's: for
	// Resumption.Gate. Tokens from before tokens named a layer have none.
	Gate string `json:"g,omitempty"`
	// Events are, with tool.PermitEvent, the names of those that the token may
	// send; none: all that the call takes.
	Events []string `json:"n,omitempty"`
	// Shown is, in a link's token, what its pause showed when the link was made,
	// by the function Shown. A page for other content decides nothing.
	Shown string `json:"w,omitempty"`
	// Wait, if set, is the wait handle that the token is for, in place of a call.
	Wait    *WaitName `json:"a,omitempty"`
	Expires int64     `json:"e"` // Unix seconds

	old bool
}

// Allows reports whether the token permits an operation.
func (t Token) Allows(p tool.Permit) bool { return slices.Contains(t.Permits, p) }

// PauseID returns the id of the pause that the token was made for. A program
// that decides by it also sets Resumption.Gate.
func (t Token) PauseID() string { return session.PauseID(t.Call, t.Pause) }

// Sends reports whether the token permits to send events of that name.
func (t Token) Sends(event string) bool {
	return t.Allows(tool.PermitEvent) && (len(t.Events) == 0 || slices.Contains(t.Events, event))
}

// Scope returns the id of what the token's holder may cancel, or report the
// progress of, or send events to: its pause, or its call. A token of the old
// form was good for its whole call, and remains so until it expires.
func (t Token) Scope() string {
	if t.old || t.Pause == 0 {
		return t.Call
	}
	return t.PauseID()
}

const (
	tokenPrefix = "f2."
	oldPrefix   = "f1."
)

// oldPermits are what the words of tokens of the old form permit.
var oldPermits = map[tool.Permit][]tool.Permit{
	"resume":   {tool.PermitComplete, tool.PermitFail},
	"progress": {tool.PermitProgress},
	"cancel":   {tool.PermitCancel},
}

// signer signs with one key of the ring.
type signer struct {
	id     int
	secret []byte
}

// newSigner refuses a key so short that tokens could be forged.
func newSigner(k session.TokenKey) (signer, error) {
	if len(k.Secret) < session.MinTokenSecret {
		return signer{}, fmt.Errorf(
			"runner: the secret of token key %d has %d bytes; at least %d are needed",
			k.ID, len(k.Secret), session.MinTokenSecret)
	}
	return signer{k.ID, k.Secret}, nil
}

// mint makes a token. It depends only on the claims and the key. Without a key
// it is an error.
func (s signer) mint(t Token) (string, error) {
	if len(s.secret) < session.MinTokenSecret {
		return "", errors.New("runner: there is no key to sign a token with")
	}
	t.Key = s.id
	claims, err := json.Marshal(t)
	if err != nil {
		return "", err
	}
	signed := tokenPrefix + base64.RawURLEncoding.EncodeToString(claims)
	return signed + "." + s.sign(signed), nil
}

func (s signer) sign(text string) string {
	mac := hmac.New(sha256.New, s.secret)
	mac.Write([]byte(text))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// ReadToken checks a callback token, and returns what it permits.
func (rn *Runner) ReadToken(ctx context.Context, token string) (Token, error) {
	signed, mac, ok := cutLast(token)
	old := strings.HasPrefix(signed, oldPrefix)
	if !ok || !old && !strings.HasPrefix(signed, tokenPrefix) {
		return Token{}, fmt.Errorf("%w: it has not the form of a token", ErrBadToken)
	}
	tok := Token{old: old}
	claims, err := base64.RawURLEncoding.Strict().DecodeString(signed[len(tokenPrefix):])
	if err != nil || json.Unmarshal(claims, &tok) != nil {
		return Token{}, fmt.Errorf("%w: it can't be read", ErrBadToken)
	}
	key, err := rn.ring.verifier(ctx, tok.Key)
	if err != nil {
		return Token{}, err
	}
	if !hmac.Equal([]byte(mac), []byte(key.sign(signed))) {
		return Token{}, fmt.Errorf("%w: its signature is wrong", ErrBadToken)
	}
	if rn.store.Now().Unix() >= tok.Expires {
		return tok, ErrTokenExpired
	}
	if old {
		var permits []tool.Permit
		for _, word := range tok.Permits {
			permits = append(permits, oldPermits[word]...)
		}
		tok.Permits = permits
	}
	return tok, nil
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, '.')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// ErrInvalidGrant refuses to make a token that makes no sense.
var ErrInvalidGrant = errors.New("runner: Grant")

// Grant is what a token is made for.
type Grant struct {
	Session string
	Pause   string // the id of an open pause, or of a call whose pause is open
	// Permits are what the token's holder may do. Approving and denying go with
	// the pause of a layer, completing and failing with a tool's own.
	Permits []tool.Permit
	// Holder, if set, is whom the token is given to: what is done with it
	// counts as theirs. It can be read in the token.
	Holder Actor
	// Lifetime is how long the token is good, rounded up to whole seconds;
	// zero, or more than that: Options.TokenLifetime.
	Lifetime time.Duration
	// Shown is what the pause shows, by the function Shown: it goes with the
	// permits of links, and must be what is stored.
	Shown string
}

// MintToken makes a token for an open pause: for the buttons of a chat, say,
// one that permits tool.PermitApprove, and another tool.PermitDeny. It is for
// programs that hand it on. The token is all that its holder needs to act.
func (rn *Runner) MintToken(ctx context.Context, g Grant, actor Actor) (string, error) {
	g.Holder = Actor(modeltext.CleanString(string(g.Holder))) // as the receipts will have it
	p, err := rn.store.Find(ctx, g.Session, g.Pause)
	pause := g.Pause
	if p.ID != "" { // given a call's id, its open pause
		pause = p.ID
	}
	// Authorized after the search: an actor who may not ask isn't told whether
	// there is such a pause, either.
	refused := rn.authorize(ctx, Operation{
		Kind: OpMint, Actor: actor, Session: g.Session, User: p.User,
		Call: session.CallID(g.Pause), Tool: p.Tool, Pause: pause,
		Permits: slices.Clone(g.Permits), Holder: g.Holder,
	})
	if refused != nil {
		err = refused
	}
	if err != nil {
		return "", err
	}
	if p.Await.Reason == "" {
		return "", fmt.Errorf("%w: %s is not open, and gets no token", session.ErrNotPaused, p.ID)
	}
	if err := g.check(p); err != nil {
		return "", err
	}
	id, err := rn.ring.newest(ctx)
	if err != nil {
		return "", err
	}
	key, err := rn.ring.signer(ctx, id)
	if err != nil {
		return "", err
	}
	lifetime := rn.options.TokenLifetime
	if g.Lifetime > 0 {
		lifetime = min(lifetime, g.Lifetime)
	}
	return key.mint(Token{
		Session: p.Session, Call: p.Call, Pause: p.Number,
		Permits: g.Permits, Holder: g.Holder, Gate: p.Await.Gate, Shown: g.Shown,
		// Up to a second longer, and never shorter.
		Expires: rn.store.Now().Add(lifetime).Add(time.Second - 1).Unix(),
	})
}

// check returns what is wrong with a grant for that pause.
func (g *Grant) check(p tool.Pause) error {
	switch {
	case len(g.Permits) == 0:
		return fmt.Errorf("%w: Permits is empty, and a token that permits nothing is of no use",
			ErrInvalidGrant)
	case len(g.Holder) > maxName:
		return fmt.Errorf("%w: Holder has %d bytes, at most %d are taken", ErrInvalidGrant,
			len(g.Holder), maxName)
	case g.Shown != "" && g.Shown != Shown(p):
		return fmt.Errorf("%w: Shown is not what pause %s shows: read the pause again",
			ErrInvalidGrant, p.ID)
	case g.Lifetime < 0:
		return fmt.Errorf("%w: Lifetime is %v, and the token would have expired before it was made",
			ErrInvalidGrant, g.Lifetime)
	}
	gate := p.Await.Gate != ""
	for _, permit := range g.Permits {
		switch {
		case !permit.Known():
			return fmt.Errorf("%w: Permits has %q, which is no permit", ErrInvalidGrant, permit)
		case permit == tool.PermitEvent:
			return fmt.Errorf("%w: Permits has %q, which is for a call and not for a pause: "+
				"its tool makes such a token, by Call.MailToken", ErrInvalidGrant, permit)
		case permit.Link() != (g.Shown != ""):
			return fmt.Errorf("%w: Permits has %q: the permits of links go with Shown, and with "+
				"each other alone", ErrInvalidGrant, permit)
		case permit.Decides() && !gate:
			return fmt.Errorf("%w: Permits has %q, and pause %s waits for no decision",
				ErrInvalidGrant, permit, p.ID)
		case gate && (permit == tool.PermitComplete || permit == tool.PermitFail ||
			permit == tool.PermitLinkAnswer):
			return fmt.Errorf("%w: Permits has %q, and pause %s waits for a decision: "+
				"permit approving or denying", ErrInvalidGrant, permit, p.ID)
		}
	}
	return nil
}

// RotateOptions configure one RotateTokenKeys. Nil means the defaults.
type RotateOptions struct {
	// Retire retires keys that another one has replaced at or before that time:
	// no token that they signed is valid any more. Default: those that were
	// replaced longer ago than Options.TokenLifetime, of which every token has
	// expired. After a leak: time.Now(). That, a later time, and one less than
	// a minute ago retire all keys but the new one.
	Retire time.Time
}

// justNow is how long ago a time may be that the caller means as now.
const justNow = time.Minute

// allKeys is a time by which every key was replaced, whatever clocks showed.
var allKeys = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// RotateTokenKeys adds a key to the ring that tokens are signed with. Calls
// asked for from now on use it, in other processes within a minute; earlier
// tokens stay good until their key is retired. The ring holds 512 keys, and
// then retires the oldest at each rotation: who rotates daily keeps tokens of
// more than a year.
func (rn *Runner) RotateTokenKeys(ctx context.Context, actor Actor, o *RotateOptions) error {
	now := rn.store.Now() // here, since the new key is made later than what the caller means by now
	if err := rn.authorize(ctx, Operation{Kind: OpRotate, Actor: actor}); err != nil {
		return err
	}
	retire := now.Add(-rn.options.TokenLifetime)
	if o != nil && !o.Retire.IsZero() {
		retire = o.Retire
		if retire.After(now.Add(-justNow)) {
			retire = allKeys
		}
	}
	return rn.ring.rotate(ctx, retire)
}
