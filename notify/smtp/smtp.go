// Package smtp sends notifications by mail. It is a module of its own, so that a
// program that sends none doesn't depend on a mail client.
//
//	mail, err := smtp.New(smtp.Config{
//		Host: "smtp.example.com", Username: "agents", Password: password,
//		From: "Agents <agents@example.com>",
//		To:   smtp.Always("ops@example.com"),
//	})
//	err = notify.Work(ctx, store, mail, nil)
//
// Each notification is one mail of plain text. It has the notification's ID in
// its Message-ID, so one that is sent twice is the same mail.
package smtp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"strings"
	"unicode"

	gomail "github.com/wneessen/go-mail"

	"github.com/fermata-ai/fermata/notify"
)

// Config is for [New].
type Config struct {
	// Host and Port are those of the server; the default port is 587, or 465
	// with ImplicitTLS.
	Host string
	Port int
	// Username and Password, if set, are given to the server, by the best method
	// that it offers. That needs TLS.
	Username, Password string
	// ImplicitTLS begins with TLS, without STARTTLS.
	ImplicitTLS bool
	// Plaintext sends without TLS, to a server on the same machine, say. There
	// can be no password then.
	Plaintext bool
	// TLS is how the server is checked; default: by the system's authorities.
	TLS *tls.Config
	// From is the address of the sender: "Agents <agents@example.com>".
	From string
	// To returns the addresses that a notification goes to. Without any it isn't
	// sent, and counts as sent.
	To func(n notify.Notification) []string
	// Subject returns the subject; default: the beginning of the text.
	Subject func(n notify.Notification) string
}

// Always returns the same addresses for all notifications.
func Always(addresses ...string) func(notify.Notification) []string {
	return func(notify.Notification) []string { return addresses }
}

// New returns a sender by mail.
func New(c Config) (notify.Sender, error) {
	from, err := mail.ParseAddress(c.From)
	switch {
	case err != nil:
		return nil, fmt.Errorf("smtp: Config.From: %w", err)
	case c.Host == "":
		return nil, errors.New("smtp: Config.Host is empty")
	case c.To == nil:
		return nil, errors.New("smtp: Config.To is nil: who gets the mail?")
	case c.Plaintext && (c.ImplicitTLS || c.Username != "" || c.Password != ""):
		return nil, errors.New("smtp: Config.Plaintext goes with neither TLS nor a password")
	case (c.Username == "") != (c.Password == ""):
		return nil, errors.New("smtp: Config has a username or a password, and not both")
	}
	s := &sender{config: c, domain: from.Address[strings.LastIndexByte(from.Address, '@')+1:]}
	if _, err := s.client(nil); err != nil {
		return nil, err
	}
	return s, nil
}

type sender struct {
	config Config
	domain string // of the Message-ID
}

// client returns one for a mail, which has a connection of its own.
func (s *sender) client(dial gomail.DialContextFunc) (*gomail.Client, error) {
	c := &s.config
	o := []gomail.Option{gomail.WithTLSConfig(s.tls()), gomail.WithDialContextFunc(dial)}
	if dial == nil {
		o = o[:1]
	}
	switch {
	case c.ImplicitTLS:
		o = append(o, gomail.WithSSL(), gomail.WithPort(gomail.DefaultPortSSL))
	case c.Plaintext:
		o = append(o, gomail.WithTLSPolicy(gomail.NoTLS), gomail.WithPort(gomail.DefaultPortTLS))
	default:
		o = append(o, gomail.WithTLSPolicy(gomail.TLSMandatory),
			gomail.WithPort(gomail.DefaultPortTLS))
	}
	if c.Port != 0 {
		o = append(o, gomail.WithPort(c.Port))
	}
	if c.Username != "" { // and so there is TLS
		o = append(o, gomail.WithOpportunisticSMTPAuth(gomail.SMTPAuthSCRAMSHA256,
			gomail.SMTPAuthPlain, gomail.SMTPAuthLogin),
			gomail.WithUsername(c.Username), gomail.WithPassword(c.Password))
	}
	client, err := gomail.NewClient(c.Host, o...)
	if err != nil {
		return nil, fmt.Errorf("smtp: %w", err)
	}
	return client, nil
}

// tls returns how the server is checked.
func (s *sender) tls() *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.config.TLS != nil {
		c = s.config.TLS.Clone()
	}
	if c.ServerName == "" {
		c.ServerName = s.config.Host
	}
	return c
}

// connection is that of one mail. The client closes it only after all has gone
// well, and looks at its context only while it dials.
type connection struct {
	net.Conn
	stop func() bool
}

// dial opens the connection, which ends with ctx.
func (c *connection) dial(ctx context.Context, s *sender) gomail.DialContextFunc {
	return func(bounded context.Context, network, address string) (net.Conn, error) {
		var err error
		if s.config.ImplicitTLS {
			c.Conn, err = (&tls.Dialer{Config: s.tls()}).DialContext(bounded, network, address)
		} else {
			c.Conn, err = new(net.Dialer).DialContext(bounded, network, address)
		}
		if err != nil {
			return nil, err
		}
		opened := c.Conn
		c.stop = context.AfterFunc(ctx, func() { opened.Close() })
		return opened, nil
	}
}

func (c *connection) close() {
	if c.stop != nil {
		c.stop()
		c.Conn.Close()
	}
}

// Send sends one mail.
func (s *sender) Send(ctx context.Context, n notify.Notification) error {
	to := s.config.To(n)
	if len(to) == 0 {
		return nil
	}
	m := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	if err := m.From(s.config.From); err != nil {
		return fmt.Errorf("smtp: the sender's address: %w", err)
	}
	if err := m.To(to...); err != nil {
		return fmt.Errorf("smtp: the addresses that Config.To returns: %w", err)
	}
	subject := n.Text
	if s.config.Subject != nil {
		subject = s.config.Subject(n)
	}
	m.Subject(oneLine(subject))
	m.SetMessageIDWithValue(n.ID + "@" + s.domain)
	m.SetDateWithValue(n.At)
	// So that no answer of a machine comes back (RFC 3834).
	m.SetGenHeader("Auto-Submitted", "auto-generated")
	m.SetBodyString(gomail.TypeTextPlain, body(&n))
	var conn connection
	defer conn.close()
	client, err := s.client(conn.dial(ctx, s))
	if err != nil {
		return err
	}
	if err := client.DialAndSendWithContext(ctx, m); err != nil {
		return fmt.Errorf("smtp: the mail was not sent: %w", err)
	}
	return nil
}

// maxSubject is how many characters of a text are the subject.
const maxSubject = 150

// oneLine returns a text as a header takes it.
func oneLine(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	if r := []rune(s); len(r) > maxSubject {
		return string(r[:maxSubject]) + " …"
	}
	return s
}

// body returns the text of a mail.
func body(n *notify.Notification) string {
	var b strings.Builder
	b.WriteString(plain(n.Text) + ".\n")
	if p := n.Pause; p != nil && !n.Over {
		if p.Await.Prompt != "" {
			b.WriteString("\n> " + strings.ReplaceAll(plain(p.Await.Prompt), "\n", "\n> ") + "\n")
		}
		for _, l := range n.Links {
			fmt.Fprintf(&b, "\n%s:\n%s\n", oneLine(l.Label), oneLine(l.URL))
		}
		if len(p.Arguments) > 0 {
			b.WriteString("\nThe call's arguments:\n" + plain(string(p.Arguments)) + "\n")
		}
	}
	return b.String()
}

// maxBody is how many characters of a text a mail has.
const maxBody = 10_000

// plain returns a text without what terminals and mail clients obey.
func plain(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, s)
	if r := []rune(s); len(r) > maxBody {
		return string(r[:maxBody]) + " …"
	}
	return s
}
