package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// SlackConfig is for [Slack].
type SlackConfig struct {
	// URL is that of an incoming webhook, of Slack or of what speaks as Slack
	// does. It is a secret, and in no error.
	URL string
	// Transport makes the requests; default http.DefaultTransport.
	Transport http.RoundTripper
}

// Slack returns a sender that posts each notification as a message: its text,
// the pause's prompt as a quotation, and its links.
func Slack(c SlackConfig) (Sender, error) {
	p, err := newPoster(c.URL, c.Transport)
	if err != nil {
		return nil, err
	}
	return &slack{p}, nil
}

type slack struct{ *poster }

func (s *slack) Send(ctx context.Context, n Notification) error {
	body, err := json.Marshal(slackMessage(&n))
	if err != nil {
		return err
	}
	return s.post(ctx, http.Header{}, body)
}

// The shape of a message, as far as it is used here:
// https://docs.slack.dev/reference/block-kit/blocks/section-block
type (
	slackPosted struct {
		Text   string       `json:"text"` // where blocks aren't shown
		Blocks []slackBlock `json:"blocks"`
	}
	slackBlock struct {
		Type string    `json:"type"`
		Text slackText `json:"text"`
	}
	slackText struct {
		Type string `json:"type"`
		Text string `json:"text"`
		// Verbatim: what looks like an address or a name is no link.
		Verbatim bool `json:"verbatim"`
	}
)

// A block's text may have 3,000 characters. What escaping adds counts.
const maxSlackPrompt = 500

func slackMessage(n *Notification) slackPosted {
	m := slackPosted{Text: slackEscape(cut(n.Text))}
	section := func(text string) {
		m.Blocks = append(m.Blocks, slackBlock{"section", slackText{"mrkdwn", text, true}})
	}
	section(slackEscape(cut(n.Text)))
	if n.Pause != nil && n.Pause.Await.Prompt != "" {
		lines := strings.ReplaceAll(slackEscape(cut(n.Pause.Await.Prompt)), "\n", "\n&gt; ")
		section("&gt; " + lines)
	}
	var links []string
	for _, l := range n.Links {
		if u, err := url.Parse(l.URL); err == nil && (u.Scheme == "https" || u.Scheme == "http") {
			links = append(links, fmt.Sprintf("<%s|%s>",
				strings.NewReplacer("|", "%7C", ">", "%3E", "<", "%3C").Replace(u.String()),
				slackEscape(l.Label)))
		}
	}
	if len(links) > 0 {
		section(strings.Join(links, "   "))
	}
	return m
}

// slackEscape keeps a text from being read as links or mentions.
func slackEscape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}

// cut returns the beginning of a text that is too long.
func cut(s string) string {
	if r := []rune(s); len(r) > maxSlackPrompt {
		return string(r[:maxSlackPrompt]) + " …"
	}
	return s
}
