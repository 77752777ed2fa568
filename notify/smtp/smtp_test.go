package smtp_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fermata-ai/fermata/notify"
	"github.com/fermata-ai/fermata/notify/smtp"
	"github.com/fermata-ai/fermata/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is as much of a mail server as a client needs.
type server struct {
	net.Listener
	tls     *tls.Config // for STARTTLS; nil: it offers none
	roots   *tls.Config // by which a client trusts it
	refuses string      // the answer to DATA; empty: it is taken
	hangs   bool        // it never greets
	early   bool        // TLS is there from the beginning

	mu    sync.Mutex
	mails []string
	to    []string
	auth  string
	ended sync.WaitGroup
}

func newServer(t *testing.T, encrypts bool, set func(*server)) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s := &server{Listener: l}
	if set != nil {
		set(s)
	}
	web := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	web.Close()
	s.roots = &tls.Config{RootCAs: web.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
	if encrypts {
		s.tls = &tls.Config{Certificates: web.TLS.Certificates}
	}
	s.ended.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.ended.Go(func() { s.serve(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		s.ended.Wait()
	})
	return s
}

// serve talks with one client until that one has gone.
func (s *server) serve(c net.Conn) {
	defer func() { c.Close() }()
	if s.hangs {
		_, _ = io.Copy(io.Discard, c)
		return
	}
	if s.early {
		c = tls.Server(c, s.tls)
	}
	say := func(line string) { fmt.Fprintf(c, "%s\r\n", line) }
	say("220 test")
	lines := bufio.NewReader(c)
	for secure := s.early; ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		s.mu.Lock()
		switch strings.ToUpper(word) {
		case "EHLO":
			say("250-test")
			if s.tls != nil && !secure {
				say("250-STARTTLS")
			}
			say("250 AUTH PLAIN")
		case "STARTTLS":
			say("220 go")
			secure = true
			over := tls.Server(c, s.tls)
			c, lines = over, bufio.NewReader(over)
		case "AUTH":
			s.auth = rest
			say("235 yes")
		case "RCPT":
			s.to = append(s.to, rest)
			say("250 yes")
		case "DATA":
			if s.refuses != "" {
				say(s.refuses)
				break
			}
			say("354 go")
			var all strings.Builder
			for line := ""; line != ".\r\n" && err == nil; {
				if line, err = lines.ReadString('\n'); line != ".\r\n" {
					all.WriteString(line)
				}
			}
			s.mails = append(s.mails, all.String())
			say("250 taken")
		case "QUIT":
			say("221 bye")
		default:
			say("250 yes")
		}
		s.mu.Unlock()
	}
}

func (s *server) config() smtp.Config {
	return smtp.Config{
		Host: "127.0.0.1", Port: s.Addr().(*net.TCPAddr).Port, TLS: s.roots,
		Username: "agents", Password: "hidden", From: "Agents <agents@example.com>",
		To: smtp.Always("ops@example.com", "Boss <boss@example.com>"),
	}
}

func asks() notify.Notification {
	return notify.Notification{
		ID: "n2_chat-1", Kind: notify.NeedsPerson, Number: 2, Session: "chat-1",
		At:   time.Unix(1_700_000_000, 0).UTC(),
		Text: "A call of refund\r\nBcc: other@example.com waits for an approval",
		Pause: &tool.Pause{ID: "c.1", Arguments: []byte(`{"cents":500}`),
			Await: tool.Await{Reason: tool.ReasonApproval, Prompt: "Pay é?\x1b[2J\n.\nReally?"}},
		Links: []notify.Link{{Label: "Look at it", URL: "https://example.com/a"}},
	}
}

func TestMailIsSent(t *testing.T) {
	to := newServer(t, true, nil)
	s, err := smtp.New(to.config())
	must(t, err)
	must(t, s.Send(t.Context(), asks()))
	to.mu.Lock()
	defer to.mu.Unlock()
	m, err := mail.ReadMessage(strings.NewReader(to.mails[0]))
	must(t, err)
	subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	must(t, err)
	for name, want := range map[string]string{
		"Message-Id": "<n2_chat-1@example.com>", "From": `"Agents" <agents@example.com>`,
		"To":             `<ops@example.com>, "Boss" <boss@example.com>`,
		"Auto-Submitted": "auto-generated", "Bcc": "",
		"Date": "Tue, 14 Nov 2023 22:13:20 +0000",
	} {
		if got := m.Header.Get(name); got != want {
			t.Errorf("%s is %q, and is to be %q", name, got, want)
		}
	}
	if subject != "A call of refund Bcc: other@example.com waits for an approval" {
		t.Errorf("the subject is %q", subject)
	}
	text, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	must(t, err)
	const want = "A call of refund\r\nBcc: other@example.com waits for an approval.\r\n\r\n" +
		"> Pay é?[2J\r\n> .\r\n> Really?\r\n\r\nLook at it:\r\nhttps://example.com/a\r\n\r\n" +
		"The call's arguments:\r\n{\"cents\":500}\r\n"
	if strings.TrimSpace(string(text)) != strings.TrimSpace(want) {
		t.Errorf("the mail is\n%q, and is to be\n%q", text, want)
	}
	auth, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(to.auth, "PLAIN "))
	if string(auth) != "\x00agents\x00hidden" || len(to.to) != 2 {
		t.Errorf("it comes by %q, for %q", auth, to.to)
	}
}

// What is over offers nothing to decide, and without an address nothing is sent.
func TestMailOfWhatIsOver(t *testing.T) {
	to := newServer(t, true, nil)
	c := to.config()
	c.To = func(n notify.Notification) []string {
		if n.Number == 1 {
			return nil
		}
		return []string{"ops@example.com"}
	}
	s, err := smtp.New(c)
	must(t, err)
	n := asks()
	n.Over, n.Number = true, 1
	must(t, s.Send(t.Context(), n))
	n.Number = 2
	must(t, s.Send(t.Context(), n))
	to.mu.Lock()
	defer to.mu.Unlock()
	if len(to.mails) != 1 || strings.Contains(to.mails[0], "https://") ||
		strings.Contains(to.mails[0], "Really?") {
		t.Errorf("sent are %q", to.mails)
	}
}

// No password goes over a connection without TLS, and no mail, unless that is
// wanted; and a certificate that isn't trusted ends it.
func TestMailGoesOverTLS(t *testing.T) {
	bare := newServer(t, false, nil)
	s, err := smtp.New(bare.config())
	must(t, err)
	if err := s.Send(t.Context(), asks()); err == nil {
		t.Error("it is sent without TLS")
	}
	other := newServer(t, true, nil)
	c := other.config()
	c.TLS = nil
	s, err = smtp.New(c)
	must(t, err)
	if err := s.Send(t.Context(), asks()); err == nil {
		t.Error("it is sent to whoever has the address")
	}
	for _, to := range []*server{bare, other} {
		to.mu.Lock()
		if to.auth != "" || len(to.mails) > 0 {
			t.Errorf("it got %q and %q", to.auth, to.mails)
		}
		to.mu.Unlock()
	}
	c = bare.config()
	c.Plaintext, c.Username, c.Password = true, "", ""
	s, err = smtp.New(c)
	must(t, err)
	must(t, s.Send(t.Context(), asks()))
}

func TestMailOverTLSFromTheBeginning(t *testing.T) {
	to := newServer(t, true, func(s *server) { s.early = true })
	c := to.config()
	c.ImplicitTLS = true
	s, err := smtp.New(c)
	must(t, err)
	must(t, s.Send(t.Context(), asks()))
	to.mu.Lock()
	defer to.mu.Unlock()
	if len(to.mails) != 1 || !strings.HasPrefix(to.auth, "PLAIN ") {
		t.Errorf("sent are %q, by %q", to.mails, to.auth)
	}
}

func TestMailThatIsNotTaken(t *testing.T) {
	to := newServer(t, true, func(s *server) { s.refuses = "452 come later" })
	s, err := smtp.New(to.config())
	must(t, err)
	if err := s.Send(t.Context(), asks()); err == nil || strings.Contains(err.Error(), "hidden") {
		t.Errorf("refused, it says %v", err)
	}
	slow := newServer(t, true, func(s *server) { s.hangs = true })
	s, err = smtp.New(slow.config())
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := s.Send(ctx, asks()); err == nil {
		t.Error("a server that hangs has taken it")
	}
}

func TestConfigsThatAreRefused(t *testing.T) {
	good := smtp.Config{Host: "localhost", From: "a@example.com", To: smtp.Always("b@example.com")}
	if _, err := smtp.New(good); err != nil {
		t.Error(err)
	}
	for what, change := range map[string]func(*smtp.Config){
		"no host":           func(c *smtp.Config) { c.Host = "" },
		"no sender":         func(c *smtp.Config) { c.From = "" },
		"nobody to send to": func(c *smtp.Config) { c.To = nil },
		"a plain password":  func(c *smtp.Config) { c.Plaintext, c.Username, c.Password = true, "a", "hidden" },
		"both ways":         func(c *smtp.Config) { c.Plaintext, c.ImplicitTLS = true, true },
		"half a login":      func(c *smtp.Config) { c.Username = "a" },
	} {
		c := good
		change(&c)
		if s, err := smtp.New(c); s != nil || err == nil || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
