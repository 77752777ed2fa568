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
	"sync"
	"time"

	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// The refusals of tokens.
var (
	ErrBadToken     = errors.New("runner: the token is not valid")
	ErrTokenExpired = errors.New("runner: the token has expired")
)

// Token is what a callback token says. Its text is "f1.", the claims as base64url JSON, ".", and an HMAC-SHA256 over all
// before it; nothing about a token is stored.
type Token struct {
	Key     int             `json:"k"` // of the store's ring
	Session string          `json:"s"`
	Call    string          `json:"c"`
	Pause   int             `json:"p"`
	Ops     []OperationKind `json:"o"`
	Expires int64           `json:"e"` // Unix seconds
}

// Allows says whether the token permits an operation.
func (t Token) Allows(op OperationKind) bool { return slices.Contains(t.Ops, op) }

const tokenPrefix = "f1."

// tokenOps is what a token of a call permits.
var tokenOps = []OperationKind{OpResume, OpProgress, OpCancel}

// tokens mints and reads tokens.
type tokens struct {
	store    *session.Store
	lifetime time.Duration

	mu   sync.Mutex
	ring []session.TokenKey
}

// newest is the number of the key that a call asked for now gets its tokens signed with.
func (t *tokens) newest(ctx context.Context) (int, error) {
	ring, err := t.store.TokenKeys(ctx)
	if err != nil {
		return 0, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ring = ring
	return ring[len(ring)-1].ID, nil
}

// key finds a key. An unknown one reloads the ring, once.
func (t *tokens) key(ctx context.Context, id int) ([]byte, error) {
	for reloaded := false; ; reloaded = true {
		t.mu.Lock()
		for _, k := range t.ring {
			if k.ID == id {
				t.mu.Unlock()
				return k.Secret, nil
			}
		}
		t.mu.Unlock()
		if reloaded {
			return nil, fmt.Errorf("%w: it is signed with key %d, which is not in the ring", ErrBadToken, id)
		}
		if _, err := t.newest(ctx); err != nil {
			return nil, err
		}
	}
}

// mint makes the token of a call's next pause. It depends on what is stored only.
func (t *tokens) mint(c tool.Call, key int, secret []byte, asked time.Time) string {
	claims, err := json.Marshal(Token{
		Key: key, Session: c.Session, Call: c.ID, Pause: c.Pauses + 1, Ops: tokenOps, Expires: asked.Add(t.lifetime).Unix(),
	})
	if err != nil {
		return "" // strings and numbers always encode
	}
	signed := tokenPrefix + base64.RawURLEncoding.EncodeToString(claims)
	return signed + "." + sign(secret, signed)
}

func sign(secret []byte, text string) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(text))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// read checks a token. What is wrong with it is said without quoting it.
func (t *tokens) read(ctx context.Context, text string) (Token, error) {
	var tok Token
	signed, mac, ok := cutLast(text)
	if !ok || !strings.HasPrefix(signed, tokenPrefix) {
		return tok, fmt.Errorf("%w: it has not the form of one", ErrBadToken)
	}
	claims, err := base64.RawURLEncoding.Strict().DecodeString(strings.TrimPrefix(signed, tokenPrefix))
	if err != nil || json.Unmarshal(claims, &tok) != nil {
		return Token{}, fmt.Errorf("%w: it can't be read", ErrBadToken)
	}
	secret, err := t.key(ctx, tok.Key)
	if err != nil {
		return Token{}, err
	}
	if !hmac.Equal([]byte(mac), []byte(sign(secret, signed))) {
		return Token{}, fmt.Errorf("%w: its signature is wrong", ErrBadToken)
	}
	if t.store.Now().Unix() >= tok.Expires {
		return tok, ErrTokenExpired
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
