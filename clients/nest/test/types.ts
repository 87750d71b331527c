// Checked by tsc: the types of the package fit an application.
import { Injectable, Module } from '@nestjs/common';
import { InjectQueue, JobHandler, JobqModule, Processor, Queue } from 'jobq-nest';
import type { Job } from 'jobq-nest';

@Processor('emails', { slots: 10, grace: 20 })
class EmailProcessor {
    @JobHandler('welcome')
    async welcome(job: Job<{ to: string }>) {
        return job.payload.to;
    }

    @JobHandler()
    plain() {}
}

@Injectable()
class Signup {
    constructor(@InjectQueue('emails') private readonly emails: Queue) {}

    async register(email: string) {
        const id: string = await this.emails.add('welcome', { to: email }, { maxAttempts: 3 });
        const many = await this.emails.addMany('welcome', [{ to: email }]);
        return [id, many[0].isNew];
    }
}

@Module({
    imports: [
        JobqModule.forRoot({ connection: 'postgres://localhost/shop', workers: false }),
        JobqModule.forRootAsync({ useFactory: async () => ({ connection: { host: 'localhost' } }) }),
        JobqModule.registerQueue('emails'),
    ],
    providers: [EmailProcessor, Signup],
})
export class AppModule {}

// @ts-expect-error: the queue of a processor is its first argument
Processor('emails', { queue: 'other' });
