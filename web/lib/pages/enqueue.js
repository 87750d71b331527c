// A form that enqueues a job.
import { Problem } from '../database.js';
import { html } from '../html.js';
import { momentField } from '../moment.js';

export async function enqueuePage(view, query, given) {
  if (!view.options.allowChanges) throw new Problem('read-only', 'the dashboard was started without --allow-changes', { status: 403 });
  if (!view.mayCall('jobq_enqueue')) throw new Problem('right', `role "${view.rights.role}" may not call jobq_enqueue`, { status: 403, profile: 'producer' });
  return view.page('Enqueue a job', html`
${view.form('/do/enqueue', { label: 'Enqueue the job', columns: true, fields: html`
<label>Queue <input name="queue" value="${given.queue ?? ''}" maxlength="63" required></label>
<label>Kind <input name="kind" value="${given.kind ?? ''}" maxlength="255"></label>
<label class="whole">Payload (JSON) <textarea name="payload" rows="8" cols="60" spellcheck="false" required>{}</textarea></label>
${momentField('Runs at (UTC)', 'run_at', '', 'empty: now')}
<label>Priority <input name="priority" type="number" min="-32768" max="32767"><small>empty: 0; jobs with lower numbers run first</small></label>
<label>Attempts <input name="max_attempts" type="number" min="1" max="2147483647"><small>empty: the setting of the queue</small></label>
<label>Unique key <input name="unique_key" maxlength="1024"></label>
<label>Group <input name="group_key" maxlength="1024"></label>
<label>Concurrency key <input name="concurrency_key" maxlength="255"></label>
<label>Metadata (JSON) <input name="metadata" maxlength="2000" placeholder="{&quot;tenant&quot;: 7}"></label>` })}`);
}

// Returns a link to the form, if the reader may use it.
export function enqueueLink(view, parameters) {
  return view.mayCall('jobq_enqueue') ? view.link('Enqueue a job ...', '/enqueue', parameters) : '';
}
