package webhook_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/webhook"
)

// Where a pause names its approvers, one of them decides, by their own login; the
// addressee of a link never does.
func TestApproversAndLinks(t *testing.T) {
	o := paying(order7)
	o.layers = interceptor.Chain{interceptor.Approval(&interceptor.ApprovalOptions{
		Tools:     []string{"pay"},
		Approvers: func(tool.Call) []string { return []string{"grace", "heidi"} },
	})}
	s := newLinkSite(t, o, webhook.LinksConfig{})
	p := s.waits()
	link := s.link(webhook.Link{Pause: p})
	withLogin, base := s.links, s.web.URL+"/links"

	// No holder of a link decides by it, not even an approver.
	byLink := must2(t)(webhook.NewLinks(s.rn, webhook.LinksConfig{Base: base, AddresseeDecides: true}))
	if _, err := byLink.URL(t.Context(), webhook.Link{Pause: p, Holder: "grace"}, "mailer"); !errors.Is(
		err, runner.ErrInvalidGrant) {
		t.Errorf("a link for an addressee: %v", err)
	}
	token, err := s.rn.MintToken(t.Context(), runner.Grant{Session: chat, Pause: p.ID,
		Permits: []tool.Permit{tool.PermitLinkApprove}, Holder: "grace",
		Shown: runner.Shown(p)}, "mailer")
	must(t, err)
	s.tokens = append(s.tokens, token)
	s.links = byLink
	before := dump(t, s.kv)
	addressee := s.browser("")
	page := addressee.get(base + "/" + token)
	page.is(http.StatusOK, "This is for others to decide.")
	page.lacks("<form", "heidi")
	ticket, cookie := forgedTicket(token, "grace")
	addressee.header.Set("Cookie", cookie)
	addressee.do(http.MethodPost, base+"/"+token, strings.NewReader("act=approve&ticket="+ticket)).
		is(http.StatusForbidden, "Nothing was decided.")

	// An approver's name on a webhook's token counts for as much as it did before.
	s.post(s.mint(p, "mallory", tool.PermitApprove)+"/approve", `{}`).is(t, 403, "not_approver")
	s.post(s.mint(p, "", tool.PermitApprove)+"/approve", `{}`).is(t, 403, "not_approver")

	s.links = withLogin
	ivan := s.browser("ivan")
	page = ivan.get(link)
	page.is(http.StatusOK, "This is for others to decide.", "Decided by", "grace", "heidi")
	page.lacks("<form")
	ivan.press(link, page, "approve").is(http.StatusForbidden)
	s.undecided(before)
	s.browser("").get(link).lacks("grace", "heidi", "Decided by")
	s.browser("heidi").decide(link, "approve").is(http.StatusOK, "by you")
}
